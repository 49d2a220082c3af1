/* SPDX-License-Identifier: BSD-2-Clause
 *
 * I/O ports. All pass through, with two exceptions. The PM1 control registers exit, because the
 * guest powers off through them. With platform_nmi=host, the status port of platform NMIs exits,
 * too.
 * SDM Vol. 3, "I/O-Bitmap Addresses", "Exit Qualification for I/O Instructions";
 * ACPI specification, "PM1 Control Registers".
 */
#include "vmx/exit/exit.h"

#include "lib/acpi.h"
#include "nmi/nmi.h"
#include "vmx/exit/report.h"

static void set_port_exiting(uint8_t *bitmaps, uint16_t port, unsigned bytes)
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
        set_port_exiting(cpu->io_bitmaps, acpi->pm1a_control, PM1_CONTROL_BYTES);
    if (acpi->pm1b_control != 0)
        set_port_exiting(cpu->io_bitmaps, acpi->pm1b_control, PM1_CONTROL_BYTES);
    if (cpu->boot->options.platform_nmi_host)
        set_port_exiting(cpu->io_bitmaps, NMI_STATUS_PORT, 1);
}

static uint32_t read_port(uint16_t port, unsigned bytes)
{
    return bytes == 1 ? inb(port) : bytes == 2 ? inw(port) : inl(port);
}

static void write_port(uint16_t port, unsigned bytes, uint32_t value)
{
    if (bytes == 1)
        outb(port, (uint8_t)value);
    else if (bytes == 2)
        outw(port, (uint16_t)value);
    else
        outl(port, value);
}

static void refuse_io(struct cpu *cpu, const char *what, unsigned number)
{
    if (may_log_refusal(cpu))
        log_printf("pmuvisor: the guest's %s 0x%x was refused: #GP\n", what, number);
    inject_gp();
}

/* Takes `bits`, which are bits of the byte at NMI_STATUS_PORT, and returns them shifted to that
 * byte's place in the guest's access. Returns 0 without platform_nmi=host, or if the access does
 * not reach that byte. With platform_nmi=host, the bits for SERR and IOCHK belong to the host. The
 * speaker and timer bits in the same byte belong to the guest. */
static uint32_t get_host_nmi_status_bits(const struct cpu *cpu, uint16_t port, unsigned bytes,
                                         uint32_t bits)
{
    unsigned at = NMI_STATUS_PORT - (unsigned)port;

    return cpu->boot->options.platform_nmi_host && at < bytes ? bits << 8 * at : 0;
}

/* Returns the bits that an access to `port` writes to the PM1 control register at `control`, at
 * their place in the register. */
static uint32_t extract_pm1_write(uint16_t control, uint16_t port, unsigned bytes, uint32_t value)
{
    if (port >= control && port < control + PM1_CONTROL_BYTES)
        return value << 8 * (port - control);
    return port < control && port + bytes > control ? value >> 8 * (control - port) : 0;
}

/* Reports only the first write on each processor. The guest may write several times, because the
 * chipset may be slow, and because a write to PM1b alone does nothing. */
static void report_power_off(struct cpu *cpu, unsigned type)
{
    if (cpu->power_off_reported)
        return;
    cpu->power_off_reported = true;
    log_printf("\npmuvisor: the guest asked for power-off (SLP_TYP %u)\n", type);
    report_all_exits();
    log_finish();
}

/* Refuses a write that asks for a sleep state other than S5. SLP_EN and SLP_TYP lie in the second
 * byte of each PM1 control register.
 *
 * After S3, firmware would resume the guest outside VMX, with access to the hypervisor's memory.
 * Only AML tells which SLP_TYP means S3, and AML may compute the value. Only the value for S5 is
 * known to be harmless, so only this value is allowed. An operating system does not try the other
 * values, because guest/acpi_edit.c removes the other sleep states from its tables. A refused write
 * gets #GP and is not just ignored, because the operating system would then wait forever for the
 * wake-up. */
static bool check_sleep_write(struct cpu *cpu, uint16_t port, unsigned bytes, uint32_t value)
{
    const struct acpi_facts *acpi = &cpu->boot->acpi;
    const uint16_t controls[] = {acpi->pm1a_control, acpi->pm1b_control};
    unsigned type = SLP_TYP_UNKNOWN;

    for (unsigned i = 0; i < LENGTH_OF(controls); i++) {
        uint32_t written = controls[i] != 0 ? extract_pm1_write(controls[i], port, bytes, value)
                                            : 0;
        if (!(written & PM1_SLP_EN))
            continue;
        type = written >> PM1_SLP_TYP_SHIFT & PM1_SLP_TYP_MASK;
        if (type != acpi->s5_type[i]) {
            refuse_io(cpu, "sleep with SLP_TYP", type);
            return false;
        }
    }
    if (type != SLP_TYP_UNKNOWN)
        report_power_off(cpu, type);
    return true;
}

/* Linux reads the status port of platform NMIs when none of its handlers has claimed an NMI. So at
 * this read, root mode checks whether the NMI was the host's. */
static void guest_in(struct cpu *cpu, uint16_t port, unsigned bytes)
{
    uint32_t hidden = get_host_nmi_status_bits(cpu, port, bytes,
                                               NMI_STATUS_SERR | NMI_STATUS_IOCHK);
    uint64_t kept = bytes == 4 ? 0 : cpu->gpr[GPR_RAX] & ~0ULL << 8 * bytes;

    if (hidden != 0 && platform_nmi_pending(cpu))
        (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
    cpu->gpr[GPR_RAX] = kept | (read_port(port, bytes) & ~hidden);
}

/* Returns false if the write is refused. */
static bool guest_out(struct cpu *cpu, uint16_t port, unsigned bytes)
{
    uint32_t value = (uint32_t)cpu->gpr[GPR_RAX] &
                     ~get_host_nmi_status_bits(cpu, port, bytes, NMI_STATUS_DISABLES);

    if (!check_sleep_write(cpu, port, bytes, value))
        return false;
    write_port(port, bytes, value);
    return true;
}

void exit_io(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint16_t port = (uint16_t)(qualification >> IO_PORT_SHIFT);
    unsigned bytes = (unsigned)(qualification & IO_SIZE_MASK) + 1;

    if (qualification & IO_STRING) {
        refuse_io(cpu, "string I/O on port", port);
        return;
    }
    if (qualification & IO_IN)
        guest_in(cpu, port, bytes);
    else if (!guest_out(cpu, port, bytes))
        return;
    skip_instruction(cpu);
    pend_breakpoints(port, bytes, BREAKPOINTS_PORT);
}
