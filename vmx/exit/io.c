/* SPDX-License-Identifier: BSD-2-Clause
 *
 * I/O ports: all pass through, except the PM1 control registers, by which the guest powers off,
 * and with platform_nmi=host the port that has the status of the platform's NMIs.
 * SDM Vol. 3, "I/O-Bitmap Addresses", "Exit Qualification for I/O Instructions";
 * ACPI specification, "PM1 Control Registers".
 */
#include "vmx/exit/exit.h"

#include "lib/acpi.h"
#include "nmi/nmi.h"
#include "vmx/exit/report.h"

static void watch(uint8_t *bitmaps, uint16_t port, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        bitmaps[(uint16_t)(port + i) / 8] |= (uint8_t)(1u << (port + i) % 8);
}

void io_setup(struct cpu *cpu)
{
    const struct acpi_facts *acpi = &cpu->boot->acpi;

    if (acpi->pm1a_control != 0 && acpi->s5_type[0] == SLP_TYP_UNKNOWN)
        log_printf("warning: ACPI's tables define no \\_S5 that can be read: the guest's power-off "
                   "will be "
                   "refused, switch off by hand\n");
    if (acpi->pm1a_control != 0)
        watch(cpu->io_bitmaps, acpi->pm1a_control, PM1_CONTROL_BYTES);
    if (acpi->pm1b_control != 0)
        watch(cpu->io_bitmaps, acpi->pm1b_control, PM1_CONTROL_BYTES);
    if (cpu->boot->options.platform_nmi_host)
        watch(cpu->io_bitmaps, NMI_STATUS_PORT, 1);
}

static void port_in(struct cpu *cpu, uint16_t port, unsigned bytes, uint32_t hidden)
{
    uint32_t value = bytes == 1 ? inb(port) : bytes == 2 ? inw(port) : inl(port);
    uint64_t kept = bytes == 4 ? 0 : cpu->gpr[GPR_RAX] & ~0ULL << 8 * bytes;

    cpu->gpr[GPR_RAX] = kept | (value & ~hidden);
}

static void port_out(uint16_t port, unsigned bytes, uint32_t value)
{
    if (bytes == 1)
        outb(port, (uint8_t)value);
    else if (bytes == 2)
        outw(port, (uint16_t)value);
    else
        outl(port, value);
}

enum sleep { SLEEP_NONE, SLEEP_OFF, SLEEP_OTHER };

/* Returns what this write asks for. SLP_EN and SLP_TYP lie in the second byte of either register.
 *
 * After S3, firmware resumes the guest outside VMX, with the hypervisor's memory open to it. Only
 * AML tells which type S3 has, maybe in a method. So S5's type, the only one known to be harmless,
 * is let through, and all others are refused. An operating system does not try them, because
 * guest/acpi_edit.c removes the other states from its tables. The write is not ignored, because
 * the operating system would then wait forever for the wake-up. */
static enum sleep sleep_asked(const struct acpi_facts *acpi, uint16_t port, unsigned bytes,
                              uint32_t value, unsigned *type)
{
    const uint16_t registers[] = {acpi->pm1a_control, acpi->pm1b_control};
    enum sleep asked = SLEEP_NONE;

    for (unsigned i = 0; i < LENGTH_OF(registers); i++) {
        uint32_t shifted;
        if (registers[i] == 0)
            continue;
        if (port >= registers[i] && port < registers[i] + PM1_CONTROL_BYTES)
            shifted = value << 8 * (port - registers[i]);
        else if (port < registers[i] && port + bytes > registers[i])
            shifted = value >> 8 * (registers[i] - port);
        else
            continue;
        if (!(shifted & PM1_SLP_EN))
            continue;
        *type = shifted >> PM1_SLP_TYP_SHIFT & PM1_SLP_TYP_MASK;
        if (*type != acpi->s5_type[i])
            return SLEEP_OTHER;
        asked = SLEEP_OFF;
    }
    return asked;
}

static void refuse_io(struct cpu *cpu, const char *what, unsigned number)
{
    if (worth_a_line(cpu))
        log_printf("pmuvisor: the guest's %s 0x%x was refused: #GP\n", what, number);
    inject_gp();
}

void exit_io(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint16_t port = (uint16_t)(qualification >> IO_PORT_SHIFT);
    unsigned bytes = (unsigned)(qualification & IO_SIZE_MASK) + 1;
    unsigned type;

    if (qualification & IO_STRING) {
        refuse_io(cpu, "string I/O on port", port);
        return;
    }
    /* platform_nmi=host: SERR and IOCHK belong to the host, but the speaker and timer bits beside
     * them do not. Linux reads the port for an NMI that nobody claimed: the moment to see whose it
     * was. `hosts` is 1 at the position of that port's byte in the access, or 0 if the access does
     * not include the port. */
    unsigned at = NMI_STATUS_PORT - (unsigned)port;
    uint32_t hosts = cpu->boot->options.platform_nmi_host && at < bytes ? 1u << 8 * at : 0;
    if (qualification & IO_IN) {
        if (hosts != 0 && platform_nmi_pending(cpu))
            (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
        port_in(cpu, port, bytes, hosts * (NMI_STATUS_SERR | NMI_STATUS_IOCHK));
    } else {
        uint32_t value = (uint32_t)cpu->gpr[GPR_RAX] & ~(hosts * NMI_STATUS_DISABLES);
        enum sleep asked = sleep_asked(&cpu->boot->acpi, port, bytes, value, &type);
        if (asked == SLEEP_OTHER) {
            refuse_io(cpu, "sleep with SLP_TYP", type);
            return;
        }
        static bool reported; /* the chipset may be slow, and PM1b alone does nothing */
        if (asked == SLEEP_OFF && !reported) {
            reported = true;
            log_printf("\npmuvisor: the guest asked for power-off (SLP_TYP %u)\n", type);
            report_processors();
            log_finish();
        }
        port_out(port, bytes, value);
    }
    skip_instruction(cpu);
    meet_breakpoints(port, bytes, BREAKPOINTS_PORT);
}
