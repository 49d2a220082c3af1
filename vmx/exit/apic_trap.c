/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trapped local APIC of the thesis's KVM, less its emulation: the guest's accesses exit, and go
 * to the hardware as they are. So a guest that unmasks LVTPC has it unmasked on the physical APIC
 * by the hypervisor, which is what the thesis adds to KVM, and all of it costs an exit, which is
 * what this policy is there to price. In xAPIC mode the page of registers is not mapped in the EPT
 * and accesses arrive here; in x2APIC mode its MSRs exit (vmx/exit/msr.c). Both are set up once, so
 * the guest changes the mode at will. CR8 does not exit in either, as it does not with KVM's TPR
 * shadow. Touches the local APIC and the guest's registers in the VMCS and struct cpu. SDM Vol. 3,
 * "Local APIC"; thesis, section 3.2.2, "PMI Masking".
 *
 * Root NMIs: the handler may send an NMI by the ICR between any two instructions here
 * (apic/apic.c). It waits until the ICR is idle, and puts the high half back. So it may come
 * between the guest's own write of the high and of the low half, which are two exits, and between
 * the read and the write of an instruction that does both: each of them is one 32-bit access of its
 * own, nothing is kept in between but the value that was read, and the guest's destination is in
 * place when its command is written. The low half then reads as the last command that was sent,
 * which no guest can rely on. In x2APIC mode the ICR is one MSR, written by one instruction.
 */
#include "vmx/exit/apic_trap.h"

#include <string.h>

#include "apic/apic.h"
#include "mm/guest_walk.h"
#include "vmx/decode.h"
#include "vmx/exit/exit.h"
#include "vmx/exit/init_sipi.h"

/* ---- guest code: linear address to guest-physical by the guest's page tables, then through
 * windows in the hypervisor's own, since guest memory is not mapped in root mode. What the EPT does
 * not map for the guest as memory is not read for it either: the hypervisor's own, devices, to
 * which the tables may point by now, and every address that the processor does not have. A window
 * keeps its page until another page needs it, so a guest that comes back to the same code costs no
 * INVLPG; only which memory it shows is remembered, never what was in it, and the EPT does not
 * change after the start. SDM Vol. 3, "Paging"; "Guest Register State". ---- */

/* The byte at a guest-physical address, seen through a window; NULL: not the guest's. The EPT is an
 * identity map and reaches at most to MAXPHYADDR, so the window's entry has no reserved bit set. */
static const void *guest_byte(void *context, uint64_t address)
{
    struct cpu *cpu = context;
    uint64_t page = address & ~(PAGE_SIZE - 1), page_bytes;
    struct host_window *window = &cpu->apic.window[page / PAGE_SIZE % GUEST_WINDOWS];

    if (window->physical != page) {
        if (!ept_is_memory(ept_lookup(cpu->ept_root, page, &page_bytes)))
            return NULL;
        host_window_turn(window, page);
        invlpg(window->page);
    }
    return (const uint8_t *)window->page + address % PAGE_SIZE;
}

/* Reads up to `count` bytes, to the end of the page at most. Gives their number. */
static unsigned read_code(struct cpu *cpu, uint64_t linear, uint8_t *out, unsigned count)
{
    unsigned levels = vmcs_read_natural(VMCS_GUEST_CR4) & CR4_LA57 ? TABLE_LEVELS + 1
                                                                   : TABLE_LEVELS;
    uint64_t physical, left = PAGE_SIZE - linear % PAGE_SIZE;

    bool mapped = guest_walk(vmcs_read_natural(VMCS_GUEST_CR3), levels, linear, guest_byte, cpu,
                             &physical);
    const void *from = mapped ? guest_byte(cpu, physical) : NULL;
    if (from == NULL)
        return 0;
    count = count < left ? count : (unsigned)left;
    memcpy(out, from, count);
    return count;
}

static bool guest_code_decode(struct cpu *cpu, uint64_t rip, struct instruction *out)
{
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    unsigned count = 0, more;

    if (!guest_in_64_bit_mode())
        return false;
    /* The next page is looked at only where the instruction goes on there. */
    do {
        more = read_code(cpu, rip + count, bytes + count, (unsigned)sizeof(bytes) - count);
        count += more;
        if (decode(bytes, count, out))
            return true;
    } while (more > 0 && count < sizeof(bytes) && out->length > count);
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

/* An INIT or SIPI that is not to be sent. Any other register's store, LVTPC's above all, pays for
 * one comparison alone. */
static bool taken_here(const volatile uint32_t *target, uint32_t command)
{
    if ((uint64_t)target % PAGE_SIZE != APIC_ICR_LOW)
        return false;
    uint32_t destination = target[(APIC_ICR_HIGH - APIC_ICR_LOW) / sizeof(*target)] >>
                           XAPIC_ID_SHIFT;
    return guest_sends_ipi(APIC_BASE_EN, command,
                           destination == XAPIC_BROADCAST ? X2APIC_BROADCAST : destination);
}

static void perform(struct cpu *cpu, const struct instruction *i, volatile uint32_t *target)
{
    uint32_t stored = i->has_immediate ? i->immediate : register_read(cpu, i->reg);
    uint32_t loaded = i->loads ? *target : 0;

    if (i->stores && !taken_here(target, stored))
        *target = stored;
    if (i->loads)
        register_write(cpu, i->reg, loaded);
    skip_bytes(cpu, i->length);
    meet_breakpoints(vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS), sizeof(*target),
                     i->stores ? BREAKPOINTS_WRITE : BREAKPOINTS_READ);
}

bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification)
{
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);
    struct instruction instruction;

    /* A walk of the guest's page tables, an event's delivery through its IDT and stack, or a
     * record that the processor stores of its own accord, has no instruction; and code is not
     * fetched from registers. */
    if ((qualification & (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED)) !=
            (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED) ||
        qualification & (EPT_VIOLATION_FETCH | EPT_VIOLATION_ASYNCHRONOUS) ||
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID)
        return false;
    /* Aligned, it cannot reach beyond the page, which root mode has mapped alone. */
    if (address % sizeof(uint32_t) != 0)
        return false;
    if (guest_code_decode(cpu, rip, &instruction)) {
        perform(cpu, &instruction, (volatile uint32_t *)address);
        return true;
    }
    if (worth_a_line(cpu))
        log_printf("pmuvisor: the guest's access to the local APIC by an instruction that "
                   "apic=trap does not know at RIP 0x%lx was refused: #GP; wanted a MOV or XCHG of "
                   "32 bits in 64-bit mode, or apic=pass\n",
                   rip);
    inject_gp();
    return true;
}
