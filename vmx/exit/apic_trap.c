/* SPDX-License-Identifier: BSD-2-Clause
 *
 * apic=trap: each of the guest's accesses to the local APIC exits, and root mode repeats the access
 * unchanged on the hardware. So when the guest unmasks LVTPC, LVTPC of the physical APIC is
 * unmasked. (The thesis's KVM traps the local APIC as well, but emulates it. The thesis adds the
 * unmasking of the physical LVTPC to KVM.) Every access costs an exit. The option exists to measure
 * that cost. In xAPIC mode, the EPT does not map the page of registers, so accesses arrive here. In
 * x2APIC mode, the MSRs exit (vmx/exit/msr.c). The start sets up both traps, so the guest may
 * change the mode at will. Accesses to CR8 exit in neither mode, just as with KVM's TPR shadow.
 * This file touches the local APIC and the guest's registers in the VMCS and struct cpu. SDM Vol.
 * 3, "Local APIC"; thesis, section 3.2.2, "PMI Masking".
 *
 * NMIs in root mode: the NMI handler may run between any two instructions here, and may send an NMI
 * through the ICR (apic/apic.c). In xAPIC mode, the handler waits until the ICR is idle, and
 * restores the ICR's high half. The handler may run between the guest's writes of the two halves,
 * which are two exits. The guest's destination is in place again when root mode writes the guest's
 * command. The handler may also run between the load and the store of an XCHG. Each of the two is
 * one 32-bit access, and between them root mode keeps only the loaded value. Afterwards, the low
 * half reads as the last command that was sent, but no guest can rely on the low half's value. In
 * x2APIC mode the ICR is one MSR, written by one instruction.
 */
#include "vmx/exit/apic_trap.h"

#include <string.h>

#include "apic/apic.h"
#include "mm/guest_walk.h"
#include "vmx/decode.h"
#include "vmx/exit/exit.h"

/* ---- reading guest code. The guest's page tables translate the code's linear address to a
 * guest-physical address. Root mode does not map guest memory, and reads guest memory through
 * windows in the hypervisor's own page tables. Root mode reads only pages that the EPT maps for the
 * guest as memory. So root mode never reads the hypervisor's own memory, devices, or addresses that
 * the processor does not have, even if the guest's tables point there. A window keeps its page
 * until another page needs the window, so a guest that comes back to the same code costs no INVLPG.
 * The window cannot become stale: it remembers an address and no contents, and the EPT does not
 * change after the start. SDM Vol. 3, "Paging"; "Guest Register State". ---- */

/* Returns a pointer to the byte at a guest-physical address, through a window. Returns NULL if the
 * address is not in the guest's memory. The EPT is an identity map and reaches at most to
 * MAXPHYADDR, so the window's page-table entry has no reserved bit set. */
static const void *map_guest_byte(void *context, uint64_t address)
{
    struct cpu *cpu = context;
    uint64_t page = address & ~(PAGE_SIZE - 1), page_bytes;
    struct host_window *window = &cpu->apic.window[page / PAGE_SIZE % GUEST_WINDOWS];

    if (window->physical != page) {
        if (!ept_is_memory(ept_lookup(cpu->ept_root, page, &page_bytes)))
            return NULL;
        host_window_map(window, page);
        invlpg(window->page);
    }
    return (const uint8_t *)window->page + address % PAGE_SIZE;
}

/* Reads at most `count` bytes of code at `linear`, and stops at the end of the page. Returns the
 * number of bytes read. */
static unsigned read_guest_code(struct cpu *cpu, uint64_t linear, uint8_t *out, unsigned count)
{
    unsigned levels = vmcs_read_natural(VMCS_GUEST_CR4) & CR4_LA57 ? TABLE_LEVELS + 1
                                                                   : TABLE_LEVELS;
    uint64_t physical, left = PAGE_SIZE - linear % PAGE_SIZE;

    bool mapped = guest_walk(vmcs_read_natural(VMCS_GUEST_CR3), levels, linear, map_guest_byte, cpu,
                             &physical);
    const void *from = mapped ? map_guest_byte(cpu, physical) : NULL;
    if (from == NULL)
        return 0;
    count = count < left ? count : (unsigned)left;
    memcpy(out, from, count);
    return count;
}

static bool decode_guest_code(struct cpu *cpu, uint64_t rip, struct instruction *out)
{
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    unsigned count = 0, more;

    if (!guest_in_64_bit_mode())
        return false;
    /* Read the next page only if the instruction continues there. */
    do {
        more = read_guest_code(cpu, rip + count, bytes + count, (unsigned)sizeof(bytes) - count);
        count += more;
        if (decode_instruction(bytes, count, out))
            return true;
    } while (more > 0 && count < sizeof(bytes) && out->length > count);
    return false;
}

/* ---- the accesses ---- */

void apic_trap_setup(struct cpu *cpu)
{
    cpu->apic.page = apic_page().base;
    for (unsigned i = 0; i < GUEST_WINDOWS; i++)
        cpu->apic.window[i] = host_window_new(cpu->host_cr3);
}

static uint32_t read_gpr(const struct cpu *cpu, uint8_t number)
{
    return (uint32_t)(number == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[number]);
}

/* Writing 32 bits of a register clears the upper half. SDM Vol. 1, "General-Purpose Registers in
 * 64-Bit Mode". */
static void write_gpr(struct cpu *cpu, uint8_t number, uint32_t value)
{
    if (number == GPR_RSP)
        vmcs_write_natural(VMCS_GUEST_RSP, value);
    else
        cpu->gpr[number] = value;
}

static void emulate_apic_access(struct cpu *cpu, const struct instruction *i,
                                volatile uint32_t *target)
{
    uint32_t stored = i->has_immediate ? i->immediate : read_gpr(cpu, i->reg);
    uint32_t loaded = i->loads ? *target : 0;

    if (i->stores)
        *target = stored;
    if (i->loads)
        write_gpr(cpu, i->reg, loaded);
    skip_bytes(cpu, i->length);
    pend_breakpoints(vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS), sizeof(*target),
                     i->stores ? BREAKPOINTS_WRITE : BREAKPOINTS_READ);
}

static void refuse_instruction(struct cpu *cpu, uint64_t rip)
{
    if (may_log_refusal(cpu))
        log_printf("pmuvisor: the guest's access to the local APIC by an instruction that "
                   "apic=trap does not know at RIP 0x%lx was refused: #GP; wanted a MOV or XCHG of "
                   "32 bits in 64-bit mode, or apic=pass\n",
                   rip);
    inject_gp();
}

bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification)
{
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);
    struct instruction instruction;

    /* Return false if no instruction made the access. The access is then a walk of the guest's page
     * tables, an event's delivery through the guest's IDT and stack, or a record that the processor
     * stores on its own. Also return false for a fetch, because nobody fetches code from the APIC's
     * registers, and for an unaligned access. An unaligned access could reach beyond this page, and
     * root mode does not map the next page. */
    if ((qualification & (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED)) !=
            (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED) ||
        qualification & (EPT_VIOLATION_FETCH | EPT_VIOLATION_ASYNCHRONOUS) ||
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
        address % sizeof(uint32_t) != 0)
        return false;
    if (decode_guest_code(cpu, rip, &instruction))
        emulate_apic_access(cpu, &instruction, (volatile uint32_t *)address);
    else
        refuse_instruction(cpu, rip);
    return true;
}
