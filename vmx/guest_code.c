/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads guest code: linear address to guest-physical by the guest's page tables, then through
 * windows in the hypervisor's own, since guest memory is not mapped in root mode. What the EPT does
 * not map for the guest is not read for it either: the hypervisor's own memory, the APIC's page,
 * and every address that the processor does not have. A window keeps its page until another page needs
 * it, so a guest that comes back to the same code costs no INVLPG; only which memory it shows is
 * remembered, never what was in it, and the EPT does not change after the start.
 * SDM Vol. 3, "Paging"; "Guest Register State".
 */
#include "decode.h"
#include "cpu.h"

#include <string.h>

#include "../mm/guest_walk.h"

#define REFUSALS_LOGGED 16 /* a guest that goes on must not flush the log */

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

    if (!guest_walk(paging, linear, read_entry, cpu, &physical))
        return 0;
    const void *from = guest_byte(cpu, physical);
    if (from == NULL)
        return 0;
    if (count > left)
        count = (unsigned)left;
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

    if (cpu->refused++ >= REFUSALS_LOGGED)
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

bool guest_code_decode(struct cpu *cpu, struct instruction *out)
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
