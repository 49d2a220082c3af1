/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer outside IA-32e mode: one instruction in protected mode without paging,
 * in code segments of every kind, or in virtual-8086 mode, most often at the end of its segment or
 * of 4 GiB. SDM Vol. 3, "Segment Descriptors", "Virtual-8086 Mode"; Vol. 1, "Instruction Pointer".
 */
#include "fuzz_legacy.h"

#include <string.h>

#include "kernel.h"
#include "sequence.h"
#include "smp.h"

#define OPCODE_CALL 0xe8
#define OPCODE_INT 0xcd
#define CALL_BYTES 5
#define DESCRIPTOR_FLAT_32 0x00cf9b000000ffffULL
#define DESCRIPTOR_TSS_32 0x0000890000000000ULL
#define SELECTOR_CODE_32 0x20
#define SELECTOR_OWN 0x30
#define TYPE_ACCESSED BIT(40)
#define TYPE_READABLE BIT(41)
#define TYPE_CONFORMING BIT(42)
#define TYPE_CODE (BIT(43) | BIT(44) | BIT(47)) /* present, of CPL 0 */
#define DESCRIPTOR_AVL BIT(52)
#define DESCRIPTOR_G BIT(55)
#define GATE_32 0x8e00u
#define CODE_BEGINS 16 /* in `code` */
#define V86_PAGE 2     /* smp_page() */
#define SEGMENT_SHIFT 4
#define REPEATS 8 /* the INT after the instruction */

struct legacy legacy;
extern char fuzz_legacy_code[], fuzz_legacy_event[];

static bool has_error_code(uint32_t vector)
{
    return vector == VECTOR_DF || (vector >= VECTOR_TS && vector <= VECTOR_PF) || vector == 17;
}

uint64_t legacy_base(uint64_t base) { return (base & 0xffffff) << 16 | (base >> 24 & 0xff) << 56; }

void legacy_make_tables(void)
{
    uint32_t stubs = (uint32_t)fuzz_physical(legacy.stub);
    uint32_t event = (uint32_t)fuzz_physical(fuzz_legacy_event);

    for (unsigned v = 0; v < LEGACY_STUBS; v++) {
        uint32_t at = stubs + v * LEGACY_STUB, distance = event - at - CALL_BYTES;
        legacy.stub[v][0] = OPCODE_CALL;
        memcpy(&legacy.stub[v][1], &distance, sizeof(distance));
        legacy.idt[v] = (at & 0xffff) | (uint64_t)SELECTOR_CODE_32 << 16 |
                        (uint64_t)((at & 0xffff0000) | GATE_32) << 32;
    }
    uint64_t tss = fuzz_physical(legacy.tss);
    memcpy(legacy.gdt,
           (const uint64_t[]){0, 0, GDT_CODE_64, GDT_DATA, DESCRIPTOR_FLAT_32,
                              DESCRIPTOR_TSS_32 | (sizeof(legacy.tss) - 1) |
                                  (tss & 0xffffff) << 16 | (tss >> 24 & 0xff) << 56,
                              0, 0},
           sizeof(legacy.gdt));
    legacy.tss[1] = (uint32_t)fuzz_physical(legacy.idt); /* ESP0: the stack's top */
    legacy.tss[2] = DATA_SELECTOR;
    legacy.gdt_pointer = (struct table_register){sizeof(legacy.gdt) - 1, fuzz_physical(legacy.gdt)};
    legacy.idt_pointer = (struct table_register){sizeof(legacy.idt) - 1, fuzz_physical(legacy.idt)};
}

struct legacy_event legacy_run(void)
{
    const uint32_t *out = legacy.out + 9; /* after PUSHAD's and the stub's */
    uint32_t error = 0;

    ((void (*)(uint64_t, uint64_t))fuzz_physical(fuzz_legacy_code))(fuzz_physical(fuzz_legacy_code),
                                                                    fuzz_physical(&legacy));
    if (has_error_code(legacy.vector))
        error = *out++;
    return (struct legacy_event){legacy.vector, error, out[0], out[1], out[2], out[3]};
}

/* ---- the instruction ---- */

/* Those whose registers matter have them set here; RCX, RDX and RAX are random else. */
static void pick_instruction(struct fuzz_op *op)
{
    static const struct {
        uint8_t length, bytes[4];
    } list[] = {
        {2, {0x0f, 0xa2}},
        {2, {0x0f, 0xa2}},
        {2, {0x0f, 0x32}},
        {2, {0x0f, 0x30}},
        {2, {0x0f, 0x33}},
        {2, {0x0f, 0x09}},
        {2, {0x0f, 0x08}},
        {3, {0x0f, 0x01, 0xd1}},
        {2, {0xe4, 0x80}},
        {2, {0xe6, 0x80}},
        {1, {0xec}},
        {1, {0xee}},
        {3, {0x0f, 0x20, 0xc0}},
        {3, {0x0f, 0x22, 0xc0}},
        {3, {0x0f, 0x22, 0xe0}},
        {2, {0x0f, 0x06}},
        {3, {0x0f, 0x01, 0xf0}},
        {3, {0x0f, 0x01, 0xe0}},
        {3, {0x0f, 0x01, 0x3f}},
        {2, {0x0f, 0x37}},
        {2, {0x0f, 0xaa}},
        {3, {0x0f, 0x01, 0xc4}},
        {3, {0x0f, 0x78, 0xc3}},
        {2, {0x0f, 0x0b}},
        {1, {0xcc}},
        {1, {0x90}},
        {2, {0xf3, 0x90}},
        {1, {0xf1}},
        {2, {0xcd, 0x13}},
        {2, {0x0f, 0x31}},
        {3, {0x0f, 0x01, 0xd0}},
        {2, {0x0f, 0x05}},
    };
    /* None that is a documented difference. */
    static const uint32_t leaves[] = {0, 7, 0xa, 0xd, 0x80000000, 0x80000008};
    static const uint32_t indices[] = {SEQUENCE_TSC_AUX, IA32_PAT, 0x2fff, 0x802, 0x40000000};
    unsigned n = (unsigned)fuzz_below(op, LENGTH_OF(list));
    const uint8_t *bytes = list[n].bytes;

    op->subject = n;
    op->length = list[n].length;
    memcpy(op->code, bytes, op->length);
    legacy.in[EDX] = 0x80; /* a port */
    legacy.in[EDI] = (uint32_t)fuzz_physical(fuzz_data);
    if (bytes[1] == 0xa2) {
        legacy.in[EAX] = FUZZ_PICK(op, leaves);
        legacy.in[ECX] = (uint32_t)fuzz_below(op, 3);
    } else if (bytes[1] == 0x30 || bytes[1] == 0x32) {
        legacy.in[ECX] = FUZZ_PICK(op, indices);
        legacy.in[EDX] = legacy.in[EAX] = legacy.in[ECX] == IA32_PAT ? 0x00070406 : 0;
    } else if (bytes[1] == 0x33) {
        legacy.in[ECX] = (uint32_t)fuzz_below(op, 12);
    } else if (bytes[1] == 0x22) { /* MOV to CR0, never with PG, and to CR4, always with PAE */
        static const uint64_t toggled[] = {0, CR0_TS, CR0_MP, CR0_NE, CR0_WP, CR0_NE | CR0_TS};
        static const uint64_t toggled_4[] = {0, BIT(2), CR4_DE, BIT(7), BIT(8), CR4_OSXSAVE};
        unsigned t = (unsigned)fuzz_below(op, LENGTH_OF(toggled));
        legacy.in[EAX] = (uint32_t)(bytes[2] == 0xc0 ? (read_cr0() & ~CR0_PG) ^ toggled[t]
                                                     : read_cr4() ^ toggled_4[t]);
    } else if (bytes[2] == 0xf0) {
        legacy.in[EAX] = (uint32_t)fuzz_below(op, 8) | 1;
    } else if (bytes[2] == 0xd1 || bytes[2] == 0xd0) {
        legacy.in[ECX] = (uint32_t)fuzz_below(op, 4) / 3;
        legacy.in[EDX] = 0;
        legacy.in[EAX] = (uint32_t)fuzz_below(op, 8);
    }
}

/* The code at a linear address; the INT that ends the operation after it, several times. */
static void place(const struct fuzz_op *op, uint8_t *at)
{
    memcpy(at, op->code, op->length);
    for (unsigned i = 0; i < REPEATS; i++) {
        at[op->length + 2 * i] = OPCODE_INT;
        at[op->length + 2 * i + 1] = FUZZ_DONE;
    }
}

/* Its offset: so that its last byte is the segment's last, or some bytes before that, or anywhere.
 * (Across the end of 4 GiB the emulator fetches what is elsewhere.) */
static uint32_t pick_offset(struct fuzz_op *op, uint32_t end)
{
    uint64_t x = fuzz_below(op, 100);

    if (x < 50)
        return end - op->length;
    return x < 70 ? end - op->length - (uint32_t)fuzz_below(op, 4)
                  : (uint32_t)fuzz_below(op, 0x1000);
}

static void protected_mode(struct fuzz_op *op)
{
    uint64_t kind = TYPE_CODE |
                    (fuzz_random(op) & (TYPE_ACCESSED | TYPE_READABLE | DESCRIPTOR_AVL));

    kind |= fuzz_chance(op, 20) ? TYPE_CONFORMING : 0;
    kind |= fuzz_chance(op, 60) ? DESCRIPTOR_L : 0;
    kind |= fuzz_chance(op, 70) ? DESCRIPTOR_D : 0;
    uint32_t end = fuzz_chance(op, 80) ? 0 : 0x10000; /* of 4 GiB, of 64 KiB */
    kind |= fuzz_chance(op, 80) ? DESCRIPTOR_G | BITS(51, 48) | 0xffff : 0xffff;
    uint32_t offset = pick_offset(op, end);
    uint64_t base = (uint32_t)fuzz_physical(legacy.code) + CODE_BEGINS - offset;

    base &= UINT32_MAX;
    legacy.gdt[SELECTOR_OWN / 8] = kind | (base & 0xffffff) << 16 | base >> 24 << 56;
    place(op, legacy.code + CODE_BEGINS);
    op->detail = kind >> 40 & 0xffff;
    legacy.frame[0] = offset;
    legacy.frame[1] = SELECTOR_OWN;
    legacy.frame[2] = RFLAGS_FIXED | (uint32_t)(fuzz_random(op) & (RFLAGS_CF | RFLAGS_OF));
}

static void v86_mode(struct fuzz_op *op)
{
    uint64_t page = smp_page(V86_PAGE);
    uint32_t offset = fuzz_chance(op, 60) ? 0x10000 - op->length : 0x100;
    /* The page's middle, whichever offset it is there. */
    uint32_t linear = (uint32_t)page + 0x800, segment = (linear - offset + 0x100000) % 0x100000;

    if (linear < offset || (linear - offset) % (1u << SEGMENT_SHIFT) != 0) {
        offset = linear < offset ? 0x100 : offset;
        linear += (16 - (linear - offset) % 16) % 16;
        segment = linear - offset;
    }
    op->detail = 1 << 16 | offset;
    place(op, (uint8_t *)(uintptr_t)linear);
    legacy.in[EDI] = 0;
    legacy.frame[0] = offset;
    legacy.frame[1] = segment >> SEGMENT_SHIFT;
    legacy.frame[2] = (uint32_t)(RFLAGS_FIXED | RFLAGS_VM |
                                 (fuzz_chance(op, 70) ? RFLAGS_IOPL : 0));
    legacy.frame[3] = 0x700; /* SP, SS and the rest: in the page */
    for (unsigned i = 4; i < 9; i++)
        legacy.frame[i] = (uint32_t)page >> SEGMENT_SHIFT;
}

/* Those registers whose value is time, or whose place is another in each run. */
static uint32_t shown(const struct fuzz_op *op, unsigned reg, uint32_t value)
{
    bool time = op->code[0] == 0x0f && op->code[1] == 0x31 && (reg == EAX || reg == EDX);

    if (time || reg == ESP)
        return 0;
    return reg == EDI ? value - legacy.in[EDI] : value;
}

void fuzz_legacy(struct fuzz_op *op)
{
    for (unsigned i = 0; i < 8; i++)
        legacy.in[i] = (uint32_t)fuzz_random(op);
    legacy_make_tables();
    legacy.clear_lme = fuzz_chance(op, 50);
    memset(legacy.code, OPCODE_INT, sizeof(legacy.code));
    pick_instruction(op);
    if (smp_page(V86_PAGE) != 0 && fuzz_chance(op, 30))
        v86_mode(op);
    else
        protected_mode(op);
    if (fuzz_shown)
        fuzz_show(op);
    struct legacy_event event = legacy_run();
    fuzz_restore_descriptors();
    __asm__ volatile("mov %0, %%ds\n\tmov %0, %%es\n\tmov %0, %%fs\n\tmov %0, %%gs"
                     :
                     : "r"(FUZZ_DATA_3 | 3));
    op->vector = event.vector;
    op->error = event.error;
    op->rip = event.eip;
    op->rflags = event.eflags;
    op->value[0] = event.cs | (uint64_t)legacy.cr0 << 32;
    op->value[1] = legacy.cr4;
    for (unsigned i = 0; i < 8; i++) {
        op->value[2 + i % 2] = op->value[2 + i % 2] << 16 ^ shown(op, i, legacy.out[i]);
        op->others = op->others * 3 + shown(op, i, legacy.out[i]);
    }
}
