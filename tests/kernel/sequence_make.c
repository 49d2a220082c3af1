/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes a sequence: its parts, drawn from the three tables by weight, and what is set up before it:
 * breakpoints, single step, pages, a PMI. Each part has random numbers of its own, so that one that
 * is left out changes no other. SDM Vol. 3, "Debug Registers"; Vol. 2, "Instruction Prefixes".
 */
#include "sequence.h"

#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15ULL /* SplitMix64, as in fuzz.c */
#define PARTS_MIN 3
#define HOT_BELOW 24 /* an access begins at most so far below a page's end */
#define HOT_SPAN 36
#define REX_W 0x48
#define DR7_FIXED 0x700ULL /* LE, GE and the bit that is always 1 */
#define FRONT 31           /* numbers of the setup's random numbers go on from here */
#define OPCODE_MOV_IMMEDIATE 0xb8
#define OPCODE_TWO_BYTES 0x0f
#define OPCODE_PORT_IN_DX 0xec /* and three more */
#define CODE16_BASE WINDOW

static const struct sequence_kind *const tables[] = {sequence_exits, sequence_accesses,
                                                     sequence_flows};

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

uint64_t sequence_random(struct sequence *s) { return mixed(s->random += GOLDEN); }

uint64_t sequence_below(struct sequence *s, uint64_t below)
{
    return below == 0 ? 0 : (sequence_random(s) >> 16) % below;
}

bool sequence_chance(struct sequence *s, unsigned percent)
{
    return sequence_below(s, 100) < percent;
}

/* ---- instructions ---- */

static void byte(struct sequence *s, uint8_t value) { s->code[s->length++] = value; }

void sequence_put(struct sequence *s, unsigned flags, unsigned bytes, const uint8_t *code)
{
    if (s->count == SEQUENCE_STARTS || s->length + bytes + 8 > SEQUENCE_CODE_END)
        tap_bail_out("a sequence is too long");
    s->start[s->count] = (uint16_t)s->length;
    s->ends[s->count] = flags & FAULT_ENDS;
    s->halts[s->count] = flags & HALTS;
    s->count++;
    if (s->bits_now == 16 && flags & ADDRESS_32)
        byte(s, 0x67);
    if (s->bits_now == 16 ? flags & OPERAND_32 : flags & NARROW)
        byte(s, 0x66);
    if (flags & LOCK)
        byte(s, 0xf0);
    if (flags & REP)
        byte(s, 0xf3);
    if (flags & REPNE)
        byte(s, 0xf2);
    if (s->bits_now == 64 && flags & WIDE)
        byte(s, REX_W);
    memcpy(s->code + s->length, code, bytes);
    s->length += bytes;
}

void sequence_load(struct sequence *s, unsigned reg, uint32_t value)
{
    PUT(s, OPERAND_32, OPCODE_MOV_IMMEDIATE + (uint8_t)reg, (uint8_t)value, (uint8_t)(value >> 8),
        (uint8_t)(value >> 16), (uint8_t)(value >> 24));
}

static uint32_t code_base(const struct sequence *s)
{
    return s->cpl == 3 ? WINDOW_CODE_USER : WINDOW_CODE;
}

uint32_t sequence_here(const struct sequence *s, unsigned bits)
{
    return code_base(s) + s->length - (bits == 16 ? CODE16_BASE : 0);
}

uint64_t sequence_first(const struct sequence *s)
{
    return code_base(s) + SEQUENCE_CODE - (s->bits == 16 ? CODE16_BASE : 0);
}

uint16_t sequence_stack_selector(const struct sequence *s)
{
    return s->cpl == 3 ? FUZZ_DATA_3 | 3 : FUZZ_DATA_0;
}

uint16_t sequence_code_selector(const struct sequence *s, unsigned bits)
{
    bool user = s->cpl == 3;
    unsigned selector = bits == 64   ? (user ? FUZZ_CODE_3 : FUZZ_CODE_0)
                        : bits == 32 ? (user ? FUZZ_CODE32_3 : FUZZ_CODE32_0)
                                     : (user ? FUZZ_CODE16_3 : FUZZ_CODE16_0);

    return (uint16_t)(selector | s->cpl);
}

uint32_t sequence_hot(struct sequence *s)
{
    return s->hot[sequence_below(s, 2)] + (uint32_t)sequence_below(s, 3) * 4;
}

/* ---- the parts ---- */

static const struct sequence_kind *pick(struct sequence *s)
{
    unsigned total = 0;

    for (unsigned t = 0; t < LENGTH_OF(tables); t++)
        for (const struct sequence_kind *k = tables[t]; k->name != NULL; k++)
            total += k->weight;
    unsigned at = (unsigned)sequence_below(s, total);
    for (unsigned t = 0; t < LENGTH_OF(tables); t++)
        for (const struct sequence_kind *k = tables[t]; k->name != NULL; k++) {
            if (at < k->weight)
                return k;
            at -= k->weight;
        }
    return tables[0];
}

static bool keeps(const struct sequence *s, unsigned bit) { return s->kept & BIT(bit); }

static void make_parts(struct sequence *s, uint64_t own)
{
    unsigned parts = PARTS_MIN + (unsigned)sequence_below(s, SEQUENCE_PARTS - PARTS_MIN + 1);

    for (unsigned n = 0; n < parts; n++) {
        s->random = mixed(own + n);
        const struct sequence_kind *kind = pick(s);
        if (!keeps(s, n))
            continue;
        s->part[n] = kind->name;
        kind->make(s);
    }
}

/* ---- the setup ---- */

static void draw_place(struct sequence *s)
{
    s->cpl = sequence_chance(s, 25) ? 3 : 0;
    s->bits = sequence_chance(s, 72) ? 64 : sequence_chance(s, 60) ? 32 : 16;
    s->data = s->cpl == 3 || sequence_chance(s, 30) ? SEQUENCE_DATA_USER : SEQUENCE_DATA;
    for (unsigned i = 0; i < 2; i++)
        s->hot[i] = s->data +
                    (1 + (uint32_t)sequence_below(s, SEQUENCE_DATA_PAGES - 1)) * PAGE_SIZE -
                    HOT_BELOW + (uint32_t)sequence_below(s, HOT_SPAN);
}

/* Where an instruction begins, more often one with an opcode of two bytes, or of a port: what exits
 * is among these. */
static unsigned draw_start(struct sequence *s)
{
    unsigned at = SEQUENCE_CODE;

    for (unsigned i = 0; i < 4 && s->count > 0; i++) {
        at = s->start[sequence_below(s, s->count)];
        if (s->code[at] == OPCODE_TWO_BYTES || (s->code[at] & ~3u) == OPCODE_PORT_IN_DX)
            break;
    }
    return at;
}

/* Of execution, of writes, of ports, of both; where the parts' accesses are, more or less. */
static void draw_breakpoint(struct sequence *s, unsigned n)
{
    static const uint16_t ports[] = {0x80, 0x3ff, 0x60, 0x61};
    static const uint8_t lengths[] = {0, 1, 3, 2}; /* 1, 2, 4, 8 bytes */
    uint64_t kind = sequence_below(s, 4), length = sequence_below(s, 4), at;

    if (!sequence_chance(s, n == 0 ? 60 : 25))
        return;
    switch (kind) {
    case 0:
        length = 0;
        at = code_base(s) + draw_start(s);
        break;
    case 2:
        length = sequence_below(s, 2);
        at = sequence_chance(s, 40) ? machine_pm1a_control() : SEQUENCE_PICK(s, ports);
        break;
    default:
        at = sequence_hot(s) + sequence_below(s, 8) * 4;
        if (sequence_chance(s, 15))
            at = s->data + SEQUENCE_STACK - 8 * (1 + sequence_below(s, 4));
        at &= ~(BIT(length) - 1);
    }
    if (!keeps(s, KEEP_BREAKPOINT + n))
        return;
    s->dr[n] = at;
    s->dr7 |= (uint64_t)(kind | (unsigned)lengths[length] << 2) << (16 + 4 * n) |
              (sequence_chance(s, 50) ? 1ULL : 2ULL) << 2 * n;
}

static void draw_pages(struct sequence *s)
{
    for (unsigned i = 0; i < SEQUENCE_DATA_PAGES; i++) {
        uint64_t flags = PTE_P | PTE_RW | PTE_A | PTE_D, x = sequence_below(s, 100);
        bool stack = i + 1 == SEQUENCE_STACK / PAGE_SIZE || i == SEQUENCE_STACK / PAGE_SIZE;
        if (x < 35)
            flags = PTE_P | PTE_RW | PTE_A;
        else if (x < 50)
            flags = PTE_P | PTE_RW;
        else if (x < 56 && !stack)
            flags &= ~(uint64_t)PTE_RW;
        else if (x < 60 && !stack)
            flags = 0;
        s->table_flags[i] = keeps(s, KEEP_TABLE) ? flags : PTE_P | PTE_RW | PTE_A | PTE_D;
    }
}

static void draw_events(struct sequence *s)
{
    bool tf = sequence_chance(s, 35), on = sequence_chance(s, 40), pmi = sequence_chance(s, 20);
    unsigned after = 1 + (unsigned)sequence_below(s, 10);
    bool pending = sequence_chance(s, 10), action = sequence_chance(s, 30);

    s->rflags = RFLAGS_FIXED;
    s->rflags |= tf && keeps(s, KEEP_TF) ? RFLAGS_TF : 0;
    s->rflags |= on && keeps(s, KEEP_IF) ? RFLAGS_IF : 0;
    if (pmi && !s->stacks_watched && keeps(s, KEEP_PMI)) {
        s->pmi = after;
        s->pmi_vector = sequence_chance(s, 70) ? 0 : SEQUENCE_IPI_FIRST + after;
    }
    if (pending && keeps(s, KEEP_PENDING))
        s->pending = SEQUENCE_IPI_LAST - after;
    if (s->variant & SEQUENCE_CET && sequence_chance(s, 60))
        s->cet = keeps(s, KEEP_CET);
    if (action && keeps(s, KEEP_HANDLER))
        s->action = (enum sequence_action)sequence_below(s, HANDLER_ACTIONS);
}

void sequence_make(struct sequence *s, uint64_t seed, uint64_t number, uint64_t variant,
                   uint64_t kept)
{
    uint64_t own = mixed(seed * HASH_PRIME ^ number * GOLDEN);

    *s = (struct sequence){.number = number,
                           .kept = kept,
                           .variant = variant,
                           .length = SEQUENCE_CODE,
                           .dr7 = DR7_FIXED};
    FOR_EACH_AROUND(a)
    s->stacks_watched |= a->watches_stacks(seed, number);
    s->random = mixed(own + FRONT);
    draw_place(s);
    draw_events(s);
    draw_pages(s);
    s->bits_now = s->bits;
    make_parts(s, own);
    for (unsigned n = 0; n < 4; n++) {
        s->random = mixed(own + FRONT + 1 + n);
        draw_breakpoint(s, n);
    }
}
