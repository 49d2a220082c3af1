/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on segments and control transfers: selectors of every kind, far jumps,
 * calls and returns, IRET with odd frames, INT n, exceptions whose gate, stack or TSS is broken.
 * A double fault still has a handler: only a run's last operation may be a triple fault.
 * SDM Vol. 3, "Protection", "Interrupt and Exception Handling"; Vol. 2, "IRET/IRETD/IRETQ".
 */
#include "fuzz.h"

#include <string.h>

#include "kernel.h"

#define SELECTOR_LDT 4
#define FORM_LTR 6 /* in fuzz_selector() */
#define RFLAGS_NT BIT(14)
#define RFLAGS_VIF (BIT(19) | BIT(20))
#define GATE_BYTES 16

static uint16_t pick_selector(struct fuzz_op *op)
{
    uint64_t x = fuzz_below(op, 100);
    unsigned rpl = fuzz_chance(op, 60) ? op->cpl : (unsigned)fuzz_below(op, 4);

    if (x < 80)
        return (uint16_t)(fuzz_below(op, FUZZ_GDT_BYTES / 8) * 8 + rpl);
    if (x < 90)
        return (uint16_t)rpl; /* null */
    return x < 95 ? (uint16_t)(fuzz_below(op, 64) * 8 + SELECTOR_LDT + rpl)
                  : (uint16_t)fuzz_random(op);
}

/* Somewhere where an INT FUZZ_DONE is, also with the upper bits cut off, or where nothing can be
 * executed. The upper half is the kernel's: what comes from there is none of an operation's. */
static uint64_t pick_target(struct fuzz_op *op)
{
    static const uint64_t targets[] = {
        WINDOW_CODE + LANDING,
        WINDOW_CODE + LANDING,
        WINDOW_CODE_USER + LANDING,
        WINDOW_CODE_USER + LANDING,
        WINDOW_CODE_USER + LANDING,
        LANDING,
        NOT_CANONICAL | (WINDOW_CODE_USER + LANDING),
        WINDOW_NOTHING,
        (NOT_CANONICAL - BIT(32)) | (WINDOW_CODE_USER + LANDING),
    };

    return FUZZ_PICK(op, targets);
}

/* 16 bits of the address are the window's first pages only with code segments of 16 bits; elsewhere
 * they would be memory of nobody knows whom: never executed, because not the fuzzer's. */
static bool leads_astray(uint16_t selector, uint64_t target, bool truncated)
{
    uint16_t plain = selector & ~3u;

    return (truncated || target == LANDING) && plain != FUZZ_CODE16_0 && plain != FUZZ_CODE16_3;
}

void fuzz_selector(struct fuzz_op *op)
{
    /* MOV to ES, SS, DS, FS, GS; LLDT, LTR, VERR, VERW, LAR, LSL; from AX. */
    static const uint8_t forms[][3] = {
        {0x8e, 0xc0, 0x90}, {0x8e, 0xd0, 0x90}, {0x8e, 0xd8, 0x90}, {0x8e, 0xe0, 0x90},
        {0x8e, 0xe8, 0x90}, {0x0f, 0x00, 0xd0}, {0x0f, 0x00, 0xd8}, {0x0f, 0x00, 0xe0},
        {0x0f, 0x00, 0xe8}, {0x0f, 0x02, 0xc8}, {0x0f, 0x03, 0xc8},
    };
    unsigned form = (unsigned)fuzz_below(op, LENGTH_OF(forms));

    fuzz_level(op, true);
    uint16_t selector = pick_selector(op);
    /* With the short TSS no handler would have a stack: see short_tss(). */
    if (form == FORM_LTR && (selector & ~7u) == FUZZ_SHORT_TSS)
        selector = FUZZ_TSS;
    op->subject = form;
    op->detail = selector;
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = selector;
    fuzz_code(op, sizeof(forms[0]), forms[form]);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    fuzz_restore_descriptors();
}

void fuzz_far(struct fuzz_op *op)
{
    bool call = fuzz_chance(op, 50), wide = fuzz_chance(op, 40), back = fuzz_chance(op, 30);

    fuzz_level(op, false);
    uint16_t selector = pick_selector(op);
    uint64_t target = pick_target(op);
    if (leads_astray(selector, target, false))
        target = WINDOW_CODE_USER + LANDING;
    op->subject = selector;
    op->detail = target;
    memset(fuzz_data, 0, 64);
    if (back) {
        /* RETF: offset, selector, then RSP and SS, 4 or 8 bytes each. */
        uint64_t frame[] = {target, selector, fuzz_data_address(op) + DATA_MIDDLE,
                            pick_selector(op)};
        for (unsigned i = 0; i < 4; i++)
            memcpy(fuzz_data + i * (wide ? 8 : 4), &frame[i], wide ? 8 : 4);
    } else {
        memcpy(fuzz_data, &target, wide ? 8 : 4);
        memcpy(fuzz_data + (wide ? 8 : 4), &selector, sizeof(selector));
    }
    fuzz_begin(op);
    if (wide)
        CODE(op, 0x48);
    if (back) {
        fuzz_in.rsp = fuzz_data_address(op);
        CODE(op, 0xcb);
    } else {
        CODE(op, 0xff, call ? 0x1f : 0x2f);
    }
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    op->value[0] = fuzz_out.cs | fuzz_out.ss << 16;
    fuzz_restore_descriptors();
}

void fuzz_iret(struct fuzz_op *op)
{
    static const uint8_t bytes_of[] = {8, 8, 4, 2};
    unsigned bytes = FUZZ_PICK(op, bytes_of);
    uint64_t frame[5];

    fuzz_level(op, true);
    if (op->code_32 && bytes == 8)
        bytes = 4;
    uint16_t selector = pick_selector(op);
    uint64_t target = pick_target(op);
    if (leads_astray(selector, target, bytes == 2))
        target = bytes == 2 ? LANDING : WINDOW_CODE_USER + LANDING;
    if (bytes == 2 && leads_astray(selector, target, true))
        selector = (uint16_t)(op->cpl == 3 ? FUZZ_CODE16_3 | 3 : FUZZ_CODE16_0);
    frame[0] = target;
    frame[1] = selector;
    /* No pending interrupt can come with IF, and a single step ends the operation. */
    frame[2] = RFLAGS_FIXED | (fuzz_random(op) & (BITS(21, 0) & ~RFLAGS_VIF));
    frame[3] = (op->cpl == 3 ? WINDOW_DATA_USER : fuzz_data_address(op)) + DATA_MIDDLE;
    frame[4] = pick_selector(op);
    for (unsigned i = 0; i < 5; i++)
        memcpy(fuzz_data + i * bytes, &frame[i], bytes);
    op->subject = selector;
    op->detail = frame[2] | frame[4] << 32;
    fuzz_begin(op);
    fuzz_in.rsp = fuzz_data_address(op);
    if (fuzz_chance(op, 5))
        fuzz_in.rflags |= RFLAGS_NT;
    if (bytes == 8)
        CODE(op, 0x48);
    else if (bytes == 2)
        CODE(op, 0x66);
    CODE(op, 0xcf);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    op->value[0] = fuzz_out.cs | fuzz_out.ss << 16;
    op->value[1] = fuzz_out.rsp;
    fuzz_restore_descriptors();
}

void fuzz_int_n(struct fuzz_op *op)
{
    uint8_t vector = (uint8_t)fuzz_random(op);

    op->subject = vector;
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.rflags |= fuzz_chance(op, 20) ? RFLAGS_IOPL : 0;
    CODE(op, 0xcd, vector);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    op->cr2 = 0; /* not of INT 14 */
    op->value[0] = fuzz_out.cs | fuzz_out.ss << 16;
}

/* ---- broken delivery ---- */

enum spoil {
    SPOIL_LIMIT,
    SPOIL_PRESENT,
    SPOIL_TYPE,
    SPOIL_SELECTOR,
    SPOIL_OFFSET,
    SPOIL_IST_CANONICAL,
    SPOIL_IST_NOTHING,
    SPOIL_IST_READ_ONLY,
    SPOIL_IST_HIDDEN,
    SPOIL_TSS,
    SPOILS
};

/* Code that raises the vector, and the vector. */
static unsigned raise_code(struct fuzz_op *op)
{
    switch (fuzz_below(op, 6)) {
    case 0:
        CODE(op, 0x0f, 0x0b); /* UD2 */
        return VECTOR_UD;
    case 1:
        CODE(op, 0xcc); /* INT3 */
        return VECTOR_BP;
    case 2:
        CODE(op, 0x31, 0xc9, 0xf7, 0xf1); /* XOR ECX, ECX; DIV ECX */
        return VECTOR_DE;
    case 3:
        fuzz_in.gpr[RDI] = NOT_CANONICAL;
        CODE(op, 0x8b, 0x07);
        return VECTOR_GP;
    case 4:
        fuzz_in.gpr[RDI] = WINDOW_NOTHING;
        CODE(op, 0x8b, 0x07);
        return VECTOR_PF;
    default:
        CODE(op, 0xcd, FUZZ_DONE + 5);
        return FUZZ_DONE + 5;
    }
}

/* A TSS that ends before its stacks: only a gate without one works, and only from CPL 0. */
static void short_tss(void)
{
    __asm__ volatile("ltr %0" : : "r"((uint16_t)FUZZ_SHORT_TSS) : "memory");
    fuzz_spoil_idt(VECTOR_DF, GATE_BYTES * VECTORS - 1)->ist = 0;
}

static void spoil(struct fuzz_op *op, enum spoil how, unsigned vector)
{
    static const uint8_t types[] = {0x85, 0x8c, 0x82, 0x89, 0x80};
    static const uint16_t selectors[] = {0,      FUZZ_DATA_0, FUZZ_CODE_3,   FUZZ_CODE_ABSENT,
                                         0xfff0, FUZZ_TSS,    FUZZ_CODE32_0, FUZZ_CODE_L_AND_D};
    uint16_t limit = GATE_BYTES * VECTORS - 1;

    /* The double fault's gate stays inside. */
    if (how == SPOIL_LIMIT)
        limit = (uint16_t)(GATE_BYTES * (VECTOR_DF + 1) - 1 + fuzz_below(op, 8 * GATE_BYTES));
    struct gate *gate = fuzz_spoil_idt(vector, limit);
    if (how == SPOIL_PRESENT)
        gate->type &= (uint8_t)~GATE_PRESENT;
    else if (how == SPOIL_TYPE)
        gate->type = FUZZ_PICK(op, types);
    else if (how == SPOIL_SELECTOR)
        gate->selector = FUZZ_PICK(op, selectors);
    else if (how == SPOIL_OFFSET)
        gate->offset_high ^= BIT(20);
    else if (how >= SPOIL_IST_CANONICAL && how <= SPOIL_IST_HIDDEN)
        gate->ist = IST_SPOIL;
    static const uint64_t tops[] = {
        [SPOIL_IST_CANONICAL] = NOT_CANONICAL,
        [SPOIL_IST_NOTHING] = WINDOW_NOTHING + DATA_MIDDLE,
        [SPOIL_IST_READ_ONLY] = WINDOW_READ_ONLY + DATA_MIDDLE,
        [SPOIL_IST_HIDDEN] = WINDOW_HIDDEN + DATA_MIDDLE,
    };
    if (gate->ist == IST_SPOIL)
        fuzz_spoil_ist(IST_SPOIL, tops[how]);
    if (how == SPOIL_TSS)
        short_tss();
}

void fuzz_delivery(struct fuzz_op *op)
{
    enum spoil how = (enum spoil)fuzz_below(op, SPOILS);

    fuzz_level(op, how != SPOIL_TSS);
    if (how == SPOIL_TSS)
        op->cpl = 0;
    op->subject = how;
    fuzz_begin(op);
    unsigned vector = raise_code(op);
    op->detail = vector;
    op->hidden = how == SPOIL_IST_HIDDEN;
    spoil(op, how, vector);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    op->value[0] = fuzz_out.cs | fuzz_out.ss << 16;
    fuzz_mend(vector);
    if (how == SPOIL_TSS)
        fuzz_restore_descriptors();
}
