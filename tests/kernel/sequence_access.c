/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Parts of sequences that access memory, most of it across a page's end: loads and stores of every
 * kind, strings with REP, and changes of the page table that maps it.
 * SDM Vol. 2, "REP/REPE/REPZ/REPNE/REPNZ"; Vol. 3, "Accessed and Dirty Flags".
 */
#include "sequence.h"

#define ENTRY(page) ((SEQUENCE_DATA / PAGE_SIZE + (page)) % TABLE_ENTRIES * 8)
#define USER_ENTRIES ((SEQUENCE_DATA_USER - SEQUENCE_DATA) / PAGE_SIZE * 8)
#define COUNT_MAX 24
#define PIECE_MAX 8u

static void aim(struct sequence *s)
{
    sequence_load(s, RDI, sequence_hot(s));
    if (sequence_chance(s, 50))
        sequence_load(s, RSI, sequence_hot(s));
}

static void string_part(struct sequence *s)
{
    static const uint8_t opcodes[] = {0xaa, 0xab, 0xab, 0xab, 0xab, 0xa4, 0xa5,
                                      0xa5, 0xa5, 0xac, 0xad, 0xa7, 0xaf};
    static const unsigned flags[] = {WIDE, WIDE, WIDE, OPERAND_32, NARROW};
    uint8_t opcode = SEQUENCE_PICK(s, opcodes);
    unsigned size = SEQUENCE_PICK(s, flags);
    unsigned rep = sequence_chance(s, 75) ? REP : sequence_chance(s, 30) ? REPNE : 0;

    uint32_t to = sequence_hot(s), from = sequence_hot(s);

    /* The emulator copies bytes, which is wrong where a piece overlaps itself. */
    if (to - from < PIECE_MAX)
        from = to - PIECE_MAX;
    sequence_load(s, RDI, to);
    sequence_load(s, RSI, from);
    sequence_load(s, RCX, (uint32_t)sequence_below(s, COUNT_MAX));
    sequence_load(s, RAX, (uint32_t)sequence_random(s));
    PUT(s, size | rep | ADDRESS_32, opcode);
    s->exits = s->exits || rep != 0; /* the emulator counts each iteration that is stepped */
}

struct form {
    unsigned flags, bytes;
    uint8_t code[4];
};

static void one_of(struct sequence *s, const struct form *forms, unsigned count)
{
    const struct form *f = &forms[sequence_below(s, count)];
    unsigned narrow = f->flags & WIDE && sequence_chance(s, 30) ? NARROW : 0;

    if (narrow == 0 && f->flags & WIDE && sequence_chance(s, 40))
        narrow = OPERAND_32;
    sequence_put(s, (narrow != 0 ? (f->flags & ~(unsigned)WIDE) | narrow : f->flags) | ADDRESS_32,
                 f->bytes, f->code);
}
#define ONE_OF(s, forms) one_of(s, forms, LENGTH_OF(forms))

static void store_part(struct sequence *s)
{
    static const struct form forms[] = {
        {WIDE, 2, {0x89, 0x07}},    {WIDE, 2, {0x89, 0x07}},    {0, 2, {0x88, 0x07}},
        {WIDE, 2, {0x8f, 0x07}},    {0, 3, {0x0f, 0x11, 0x07}}, {WIDE, 3, {0x0f, 0xc3, 0x07}},
        {0, 3, {0x0f, 0x01, 0x0f}}, /* SIDT */
        {0, 3, {0x0f, 0xae, 0x1f}}, /* STMXCSR */
        {0, 2, {0xd9, 0x3f}},       /* FNSTCW */
        {0, 3, {0x0f, 0x94, 0x07}}, /* SETE */
        {WIDE, 2, {0x8c, 0x17}},    /* MOV [RDI], SS */
    };

    aim(s);
    ONE_OF(s, forms);
}

static void load_part(struct sequence *s)
{
    static const struct form forms[] = {
        {WIDE, 2, {0x8b, 0x06}}, {WIDE, 2, {0x8b, 0x16}},       {0, 2, {0x8a, 0x06}},
        {WIDE, 2, {0x03, 0x06}}, {0, 3, {0x0f, 0x10, 0x06}},    {WIDE, 2, {0xff, 0x36}},
        {WIDE, 2, {0x3b, 0x06}}, {WIDE, 3, {0x0f, 0xb6, 0x06}}, {0, 3, {0x0f, 0x18, 0x0e}},
    };

    sequence_load(s, RSI, sequence_hot(s));
    ONE_OF(s, forms);
}

static void change_part(struct sequence *s)
{
    static const struct form forms[] = {
        {WIDE, 2, {0x87, 0x07}},
        {WIDE, 2, {0x01, 0x07}},
        {WIDE | LOCK, 3, {0x0f, 0xc1, 0x07}},
        {WIDE | LOCK, 3, {0x0f, 0xb1, 0x07}},
        {WIDE, 2, {0xff, 0x07}},
        {0, 3, {0x80, 0x0f, 1}},
        {WIDE | LOCK, 3, {0x83, 0x07, 5}},
        {LOCK, 3, {0x0f, 0xc7, 0x0f}},
        {WIDE | LOCK, 4, {0x0f, 0xba, 0x2f, 3}},
        {WIDE, 2, {0xd3, 0x27}},
    };

    aim(s);
    ONE_OF(s, forms);
}

static void stack_part(struct sequence *s)
{
    switch (sequence_below(s, 5)) {
    case 0:
        PUT(s, OPERAND_32, 0x50);
        PUT(s, OPERAND_32, 0x58 + RBX);
        break;
    case 1:
        /* Of 16 bits LEAVE would move ESP to where the upper half of EBP says. */
        PUT(s, OPERAND_32, 0xc8, 0x20, 0, 0); /* ENTER 32, 0 */
        PUT(s, OPERAND_32, 0xc9);
        break;
    case 2:
        PUT(s, OPERAND_32, 0x9c);
        PUT(s, OPERAND_32, 0x58);
        break;
    case 3:
        PUT(s, OPERAND_32, 0x6a, 0x33);
        PUT(s, OPERAND_32, 0x6a, 0x44);
        PUT(s, OPERAND_32, 0x58);
        break;
    default:
        PUT(s, OPERAND_32, 0x50);
    }
}

/* A bit of an entry, and INVLPG; by CPL 0. */
static void table_part(struct sequence *s)
{
    static const uint8_t bits[] = {PTE_A, PTE_D, PTE_D, PTE_A | PTE_D, PTE_RW};
    unsigned page = (unsigned)sequence_below(s, SEQUENCE_DATA_PAGES);
    uint8_t bit = SEQUENCE_PICK(s, bits);
    bool stack = page == SEQUENCE_STACK / PAGE_SIZE || page + 1 == SEQUENCE_STACK / PAGE_SIZE;
    uint32_t linear = s->data + page * PAGE_SIZE;

    sequence_load(
        s, RBX, SEQUENCE_TABLE + ENTRY(page) + (s->data == SEQUENCE_DATA_USER ? USER_ENTRIES : 0));
    PUT(s, OPERAND_32 | ADDRESS_32, 0x80, 0x33, bit & PTE_RW && stack ? PTE_D : bit); /* XOR */
    sequence_load(s, RBX, linear);
    PUT(s, ADDRESS_32, 0x0f, 0x01, 0x3b); /* INVLPG [EBX] */
}

const struct sequence_kind sequence_accesses[] = {
    {"string", string_part, 80},
    {"store", store_part, 90},
    {"load", load_part, 50},
    {"change", change_part, 60},
    {"stack", stack_part, 40},
    {"table", table_part, 40},
    {NULL, NULL, 0},
};
