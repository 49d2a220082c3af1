/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on memory: page table entries and page tables that lead anywhere, and
 * then a read, a write, a change or an execution through them. What is read is not compared:
 * memory is not the same in both runs; memory that is not the fuzzer's is not changed.
 * SDM Vol. 3, "4-Level Paging and 5-Level Paging", "EPT Violations".
 */
#include "fuzz.h"

#include "kernel.h"

#define PTE_LOW_FLAGS BITS(8, 0)
#define HOLE_FIRST 0x60000000ULL /* neither memory nor a device in the emulator, up to .. */
#define HOLE_LAST 0xb0000000ULL
#define HIGH_LAST BITS(39, 12)
#define RESERVED_ADDRESS BITS(51, 40)
#define IO_APIC_PAGE 0xfec00000ULL
#define ROM_PAGE 0xfffff000ULL

enum target { PLAIN, HIDDEN, HOLE, HIGH, RESERVED, APIC, IO_APIC, ROM, TARGETS };
enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_CHANGE, ACCESS_EXECUTE, ACCESSES };

static uint64_t page_of(struct fuzz_op *op, enum target target)
{
    switch (target) {
    case HIDDEN:
        return fuzz_hidden_page(fuzz_random(op));
    case HOLE:
        return (HOLE_FIRST + fuzz_random(op) % (HOLE_LAST - HOLE_FIRST)) &
               ~(uint64_t)(PAGE_SIZE - 1);
    case HIGH:
        return (fuzz_random(op) & HIGH_LAST) | BIT(33);
    case RESERVED:
        return fuzz_physical(fuzz_plain) | BIT(40 + fuzz_below(op, 12));
    case APIC:
        return APIC_PAGE;
    case IO_APIC:
        return IO_APIC_PAGE;
    case ROM:
        return ROM_PAGE;
    default:
        return fuzz_physical(fuzz_plain);
    }
}

/* What may be done to a target. Devices: reads of 32 bits where their registers are. */
static enum access access_of(struct fuzz_op *op, enum target target)
{
    switch (target) {
    case APIC:
    case IO_APIC:
    case ROM:
        return ACCESS_READ;
    case HOLE:
    case HIGH:
        /* The emulator cannot execute where there is no memory. */
        return (enum access)fuzz_below(op, ACCESS_EXECUTE);
    default:
        return (enum access)fuzz_below(op, ACCESSES);
    }
}

/* In front: RDI is the address. */
static void access_code(struct fuzz_op *op, enum access access)
{
    switch (access) {
    case ACCESS_READ:
        CODE(op, 0x8b, 0x0f); /* MOV ECX, [RDI] */
        break;
    case ACCESS_WRITE:
        CODE(op, 0x89, 0x07); /* MOV [RDI], EAX */
        break;
    case ACCESS_CHANGE:
        if (fuzz_chance(op, 50))
            CODE(op, 0xf0, 0x83, 0x0f, 0x00); /* LOCK OR DWORD [RDI], 0 */
        else
            CODE(op, 0x87, 0x07); /* XCHG [RDI], EAX */
        break;
    default:
        CODE(op, 0xff, 0xe7); /* JMP RDI */
    }
}

void fuzz_page(struct fuzz_op *op)
{
    static const uint8_t often[] = {PLAIN, PLAIN, HIDDEN,   HIDDEN, HIDDEN,  HIDDEN,
                                    HOLE,  HIGH,  RESERVED, APIC,   IO_APIC, ROM};
    enum target target = (enum target)FUZZ_PICK(op, often);
    enum access access = access_of(op, target);
    uint64_t flags = PTE_P | PTE_RW | PTE_US, page = page_of(op, target);
    unsigned through = (unsigned)fuzz_below(op, 8);

    if (fuzz_chance(op, 50))
        flags ^= fuzz_random(op) & (PTE_LOW_FLAGS & ~PTE_PS);
    if (fuzz_chance(op, 15))
        flags |= PTE_XD;
    op->subject = target;
    op->detail = (uint64_t)access | through << 8;
    op->hidden = target == HIDDEN;
    op->hidden_table = op->hidden && through == 0;
    fuzz_level(op, false);
    uint64_t offset = target == APIC || target == IO_APIC
                          ? fuzz_below(op, 2) * 0x10 + (target == APIC ? 0x20 : 0)
                          : fuzz_below(op, PAGE_SIZE / 4 - 1) * 4;
    uint32_t linear = WINDOW_TARGET;
    if (through == 0) {
        /* The page is used as a page table: natively an own one, that maps plain memory. */
        linear = WINDOW_TARGET_TABLE;
        fuzz_map_table((target == HIDDEN && fuzz_guest ? page : 0) | flags,
                       fuzz_physical(fuzz_plain) | PTE_P | PTE_RW | PTE_US);
        if (target != HIDDEN)
            op->subject = PLAIN;
    } else {
        fuzz_map(page | flags);
    }
    fuzz_begin(op);
    fuzz_in.gpr[RDI] = linear + offset;
    uint32_t *place = (uint32_t *)(fuzz_plain + offset % PAGE_SIZE), before = *place;
    /* What is written is what was there, or goes to a page of ours or into a hole. */
    access_code(op, access);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    *place = before;
    fuzz_map(0);
    if (through == 0)
        fuzz_map_table(0, 0);
}
