/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The copies of the trampoline. One copy is in the page below 1 MiB, for processors that are being
 * started. If firmware runs with 5-level paging, another copy is in a page of the pool, for the
 * first processor: the hypervisor's tables have 4 levels, and CR4.LA57 cannot change while paging
 * is on. SDM Vol. 3, "4-Level Paging and 5-Level Paging"; "Control Registers" (CR4.LA57).
 */
#include "vmx/start/start.h"

#include <string.h>

struct trampoline_parameters {
    uint64_t cr3;
    uint64_t stack;    /* the top of the stack */
    uint64_t argument; /* passed to `entry` */
    uint64_t entry;    /* the function that the trampoline calls in 64-bit mode */
};
extern const char trampoline_start[], trampoline_leave[], trampoline_parameters[], trampoline_end[];

void trampoline_write(uint64_t page, const struct start *s, void (*entry)(struct start *s))
{
    uint64_t offset = (uint64_t)(trampoline_parameters - trampoline_start);

    memcpy((void *)page, trampoline_start, (uint64_t)(trampoline_end - trampoline_start));
    *(struct trampoline_parameters *)(page + offset) = (struct trampoline_parameters){
        s->cpu->host_cr3, s->cpu->root_stack, (uint64_t)s, (uint64_t)entry};
}

/* Both pages must be below 4 GiB, as the whole pool is: *page contains 32-bit code, and CR3 is
 * loaded outside 64-bit mode. The page `top` is a table above the hypervisor's tables, which gives
 * 5-level paging with the same map. */
uint64_t leave_5_level_paging(const struct start *s, void (*entry)(struct start *s), uint64_t *page,
                              uint64_t *cr3)
{
    uint64_t *top = page_alloc(1);

    *page = (uint64_t)page_alloc(1);
    trampoline_write(*page, s, entry);
    (void)host_paging_map(s->cpu->host_cr3, (struct range){*page, PAGE_SIZE}, HOST_READ_EXECUTE);
    top[0] = s->cpu->host_cr3 | PTE_P | PTE_RW;
    *cr3 = (uint64_t)top;
    log_printf("pmuvisor: firmware's 5-level paging is left\n");
    return *page + (uint64_t)(trampoline_leave - trampoline_start);
}
