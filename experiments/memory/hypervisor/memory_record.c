/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds the parts of a record that the exit does not report: translations by the guest's own
 * tables, code, and the header of an XSAVE area.
 */
#include "experiments/memory/hypervisor/memory_record.h"

#include "mm/guest_walk.h"
#include "mm/paging.h"

/* ---- where the guest's addresses lie. These functions read only the guest's memory, because the
 * guest can read the ring, and the ring must never reveal root mode's memory. ---- */

struct tables {
    const struct cpu *cpu;
    uint64_t last;       /* address of the entry read last */
    uint64_t looked_for; /* address of an entry to look for */
    bool met;            /* the walk has read the entry looked for */
    uint64_t entry;      /* value of the entry read last; each entry is read only once */
    uint64_t all;        /* bits that are set in all entries */
};

static const void *table_entry(void *context, uint64_t address)
{
    struct tables *tables = context;

    tables->last = address;
    tables->met |= address == tables->looked_for;
    const volatile uint64_t *entry = memory_find_guest(tables->cpu, address);
    tables->entry = entry != NULL ? *entry : 0;
    tables->all &= tables->entry;
    return &tables->entry;
}

static bool walk_guest_tables(struct cpu *cpu, uint64_t linear, struct tables *tables,
                              uint64_t *physical)
{
    unsigned levels = vmcs_read_natural(VMCS_GUEST_CR4) & CR4_LA57 ? TABLE_LEVELS + 1
                                                                   : TABLE_LEVELS;

    tables->cpu = cpu;
    tables->all = ~0ULL;
    return vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA &&
           guest_walk(vmcs_read_natural(VMCS_GUEST_CR3), levels, linear, table_entry, tables,
                      physical);
}

bool memory_translate(struct cpu *cpu, uint64_t linear, uint64_t *physical, uint64_t *entry)
{
    struct tables tables = {0};

    if (!walk_guest_tables(cpu, linear, &tables, physical))
        return false;
    if (entry != NULL)
        *entry = tables.last;
    return true;
}

enum memory_entry memory_entry_of(struct cpu *cpu, uint64_t linear, uint64_t address)
{
    struct tables tables = {.looked_for = address};
    uint64_t physical;
    bool mapped = walk_guest_tables(cpu, linear, &tables, &physical);

    return !tables.met                        ? ENTRY_OF_ANOTHER
           : mapped && tables.last == address ? ENTRY_LAST
                                              : ENTRY_ON_WAY;
}

/* Also returns NULL if the page walk would have to set a bit, or if protection keys apply: these
 * cases are left to the processor. SDM Vol. 3, "Determination of Access Rights". */
const void *memory_find_readable(struct cpu *cpu, uint64_t linear)
{
    struct tables tables = {0};
    uint64_t physical, cr4 = vmcs_read_natural(VMCS_GUEST_CR4);
    bool user = guest_cpl() == 3;

    if (!walk_guest_tables(cpu, linear, &tables, &physical) || !(tables.all & PTE_A))
        return NULL;
    if (tables.all & PTE_US ? cr4 & CR4_PKE || !(user || !(cr4 & CR4_SMAP) ||
                                                 vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_AC)
                            : cr4 & CR4_PKS || user)
        return NULL;
    return memory_find_guest(cpu, physical);
}

/* ---- the code ---- */

bool memory_find_code(struct cpu *cpu, uint64_t cr3, uint64_t linear, struct code_page *page)
{
    uint64_t physical, entry;

    page->linear = 1; /* matches no page */
    if (!memory_translate(cpu, linear, &physical, &entry))
        return false;
    page->bytes = memory_find_guest(cpu, physical);
    if (page->bytes == NULL)
        return false;
    page->entry = memory_host_address(entry);
    page->value = *page->entry;
    page->cr3 = cr3;
    page->linear = linear;
    return true;
}

unsigned memory_read_code_across_pages(struct cpu *cpu, uint64_t cr3, uint64_t rip, uint8_t *code)
{
    unsigned count = 0;

    for (; count < CODE_BYTES; count++) {
        uint64_t at = rip + count;
        const struct code_page *page = memory_code_page(cpu, cr3, at & ~(PAGE_SIZE - 1));

        if (page == NULL)
            break;
        code[count] = page->bytes[at % PAGE_SIZE];
    }
    return count;
}

/* Records what the area's header says after the instruction. XSAVEC may begin to write after the
 * area's first bytes, but within the first 64 bytes. An area is aligned to 64 bytes, so its start
 * is found by rounding down. SDM Vol. 1, "XSAVE Area", "XSAVE Header". */
#define XSAVE_ALIGNMENT 64
#define XSTATE_BV 512
#define XCOMP_BV 520
void memory_finish_xstate(struct cpu *cpu, struct trace_memory *record)
{
    uint64_t area = record->gpa & ~(XSAVE_ALIGNMENT - 1ULL);

    record->flags |= TRACE_XSTATE;
    record->detail = (uint32_t)cpu->gpr[GPR_RAX];
    if (area % PAGE_SIZE > PAGE_SIZE - XCOMP_BV - sizeof(uint64_t))
        return; /* the header is in the next page, which may lie anywhere in physical memory */
    const uint64_t *bv = memory_host_address(area + XSTATE_BV),
                   *comp = memory_host_address(area + XCOMP_BV);
    record->xstate = (*bv & BITS(23, 0)) | (*comp & BITS(22, 0)) << 24 | (*comp >> 63) << 47;
}

void memory_finish_end_of_page(struct trace_memory *record)
{
    uint64_t left = PAGE_SIZE - record->gpa % PAGE_SIZE;
    const uint8_t *from = memory_host_address(record->gpa);
    uint64_t value[2] = {0};

    for (uint64_t i = 0; i < left; i++)
        ((uint8_t *)value)[i] = from[i];
    record->value0 = value[0];
    record->value1 = value[1];
}
