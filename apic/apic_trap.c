/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trapped local APIC of the thesis's KVM, less its emulation: the guest's accesses exit, and
 * go to the hardware as they are. So a guest that unmasks LVTPC has it unmasked on the physical
 * APIC by the hypervisor, which is what the thesis adds to KVM, and all of it costs an exit, which
 * is what this policy is there to price. In xAPIC mode the page of registers is not mapped in the
 * EPT and accesses arrive here; in x2APIC mode its MSRs exit (vmx/msr.c). Both are set up once, so
 * the guest changes the mode at will. CR8 does not exit in either, as it does not with KVM's TPR shadow.
 * Touches the local APIC and the guest's registers in the VMCS and struct cpu.
 * SDM Vol. 3, "Local APIC"; thesis, section 3.2.2, "PMI Masking".
 *
 * Root NMIs: the handler may send an NMI by the ICR between any two instructions here (apic.c). It
 * waits until the ICR is idle, and puts the high half back. So it may come between the guest's own
 * write of the high and of the low half, which are two exits, and between the read and the write of
 * an instruction that does both: each of them is one 32-bit access of its own, nothing is kept in
 * between but the value that was read, and the guest's destination is in place when its command is
 * written. The low half then reads as the last command that was sent, which no guest can rely on.
 * In x2APIC mode the ICR is one MSR, written by one instruction.
 */
#include "apic_trap.h"

#include <string.h>

#include "../mm/guest_walk.h"
#include "../vmx/decode.h"
#include "../vmx/exit.h"
#include "../vmx/processor.h"
#include "apic.h"

/* ---- guest code: linear address to guest-physical by the guest's page tables, then through windows
 * in the hypervisor's own, since guest memory is not mapped in root mode. What the EPT does not map
 * for the guest is not read for it either: the hypervisor's own memory, the APIC's page, and every
 * address that the processor does not have. A window keeps its page until another page needs it, so
 * a guest that comes back to the same code costs no INVLPG; only which memory it shows is
 * remembered, never what was in it, and the EPT does not change after the start.
 * SDM Vol. 3, "Paging"; "Guest Register State". ---- */

/* The byte at a guest-physical address, seen through a window; NULL: not the guest's. The EPT is an
 * identity map and reaches at most to MAXPHYADDR, so the window's entry has no reserved bit set. */
static const void *guest_byte(struct cpu *cpu, uint64_t address)
{
    uint64_t page = address & ~(PAGE_SIZE - 1), page_bytes;
    struct host_window *window = &cpu->apic.window[page / PAGE_SIZE % GUEST_WINDOWS];

    if (window->physical != page) {
        if (!(ept_lookup(cpu->ept_root, page, &page_bytes) & EPT_READ))
            return NULL;
        host_window_turn(window, page);
        invlpg(window->page);
    }
    return (const uint8_t *)window->page + address % PAGE_SIZE;
}

static bool read_entry(void *context, uint64_t address, unsigned bytes, uint64_t *value)
{
    const void *entry = guest_byte(context, address);

    if (entry == NULL)
        return false;
    *value = bytes == sizeof(uint64_t) ? *(const volatile uint64_t *)entry
                                       : *(const volatile uint32_t *)entry;
    return true;
}

/* Reads up to `count` bytes, to the end of the page at most. Gives their number. */
static unsigned read_code(struct cpu *cpu, const struct guest_paging *paging, uint64_t linear,
                          uint8_t *out, unsigned count)
{
    uint64_t physical, left = PAGE_SIZE - linear % PAGE_SIZE;

    bool mapped = guest_walk(paging, linear, read_entry, cpu, &physical);
    const void *from = mapped ? guest_byte(cpu, physical) : NULL;
    if (from == NULL)
        return 0;
    count = count < left ? count : (unsigned)left;
    memcpy(out, from, count);
    return count;
}

static enum code_size code_size(uint64_t efer)
{
    uint32_t rights = vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS);

    if (efer & EFER_LMA && rights & ACCESS_LONG)
        return CODE_64;
    return rights & ACCESS_DB ? CODE_32 : CODE_16;
}

static void log_refusal(struct cpu *cpu, uint64_t rip, const uint8_t *bytes, unsigned count)
{
    char hex[3 * INSTRUCTION_BYTES_MAX + 1];
    size_t at = 0;

    if (!worth_a_line(cpu))
        return;
    if (count == 0) {
        log_printf("pmuvisor: the guest's access to its local APIC by code at RIP 0x%lx was "
                   "refused (#GP): its page tables do not lead to the code\n", rip);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        at += format_text(hex + at, sizeof(hex) - at, " %02x", bytes[i]);
    log_printf("pmuvisor: the guest's access to its local APIC at RIP 0x%lx was refused (#GP): "
               "bytes%s, wanted a 32-bit MOV, XCHG, TEST, CMP or arithmetic; use apic=pass\n",
               rip, hex);
}

static bool guest_code_decode(struct cpu *cpu, struct instruction *out)
{
    const struct guest_paging paging = {
        .cr0 = vmcs_read_natural(VMCS_GUEST_CR0),
        .cr3 = vmcs_read_natural(VMCS_GUEST_CR3),
        .cr4 = vmcs_read_natural(VMCS_GUEST_CR4),
        .efer = vmcs_read_64(VMCS_GUEST_IA32_EFER),
    };
    enum code_size size = code_size(paging.efer);
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP), linear = rip;
    uint8_t bytes[INSTRUCTION_BYTES_MAX];

    if (size != CODE_64)
        linear = (uint32_t)(rip + vmcs_read_natural(VMCS_GUEST_CS_BASE));
    unsigned count = read_code(cpu, &paging, linear, bytes, sizeof(bytes));
    enum decode_result result = decode(bytes, count, size, out);
    /* The next page is looked at only where the instruction goes on there. */
    if (result == DECODE_SHORT && count > 0 && count < sizeof(bytes)) {
        count += read_code(cpu, &paging, linear + count, bytes + count,
                           (unsigned)sizeof(bytes) - count);
        result = decode(bytes, count, size, out);
    }
    if (result == DECODE_DONE)
        return true;
    log_refusal(cpu, rip, bytes, count);
    return false;
}

/* ---- the accesses ---- */

bool apic_trap_setup(struct cpu *cpu)
{
    cpu->apic.page = apic_page().base;
    for (unsigned i = 0; i < GUEST_WINDOWS; i++)
        if (!host_window_new(cpu->host_cr3, &cpu->apic.window[i]))
            return false;
    return true;
}

static uint32_t register_read(const struct cpu *cpu, uint8_t number)
{
    return (uint32_t)(number == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[number]);
}

/* A 32-bit result clears the upper half. SDM Vol. 1, "General-Purpose Registers in 64-Bit Mode". */
static void register_write(struct cpu *cpu, uint8_t number, uint32_t value)
{
    if (number == GPR_RSP)
        vmcs_write_natural(VMCS_GUEST_RSP, value);
    else
        cpu->gpr[number] = value;
}

/* An INIT or SIPI that is not to be sent. */
static bool taken_here(const volatile uint32_t *target, uint32_t command)
{
    uint32_t destination = apic_read(APIC_ICR_HIGH) >> XAPIC_ID_SHIFT;

    return (uint64_t)target % PAGE_SIZE == APIC_ICR_LOW &&
           guest_sends_ipi(command, destination == XAPIC_BROADCAST ? X2APIC_BROADCAST : destination);
}

static void perform(struct cpu *cpu, const struct instruction *i, volatile uint32_t *target)
{
    uint64_t before = vmcs_read_natural(VMCS_GUEST_RFLAGS), rflags = before;
    uint32_t memory = reads_memory(i) ? *target : 0;
    struct effect effect = execute(i, memory, register_read(cpu, i->reg), &rflags);

    if (effect.writes_memory && !taken_here(target, effect.memory))
        *target = effect.memory;
    if (effect.writes_register)
        register_write(cpu, i->reg, effect.reg);
    if (rflags != before)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, rflags);
    skip_bytes(cpu, i->length);
}

bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification)
{
    struct instruction instruction;

    /* A walk of the guest's page tables, or an event's delivery through its IDT and stack, has no
     * instruction; and code is not fetched from registers. */
    if ((qualification & (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED)) !=
            (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED) ||
        qualification & EPT_VIOLATION_FETCH ||
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID)
        return false;
    /* Aligned, it cannot reach beyond the page, which root mode has mapped alone. */
    if (address % sizeof(uint32_t) != 0)
        return false;
    if (guest_code_decode(cpu, &instruction))
        perform(cpu, &instruction, (volatile uint32_t *)address);
    else
        inject_gp();
    return true;
}
