/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: every form that it knows, what it must refuse, no byte read past the end.
 */
#include "unit.h"

#include "random.h"
#include "vmx/cpu.h"
#include "vmx/decode.h"

#define NO_REGISTER 0

enum { LOAD = 1, STORE = 2, EXCHANGE = LOAD | STORE, IMMEDIATE = 4 | STORE };

struct known {
    const char *text; /* Intel syntax */
    unsigned length;
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    unsigned what;
    uint8_t reg;
    uint32_t immediate;
};

static const struct known known[] = {
    /* What Linux and the compilers make of a dword in memory. */
    {"mov [0xffffffffff5fb340], esi",
     7,
     {0x89, 0x34, 0x25, 0x40, 0xb3, 0x5f, 0xff},
     STORE,
     GPR_RSI,
     0},
    {"mov eax, [0xffffffffff5fb340]",
     7,
     {0x8b, 0x04, 0x25, 0x40, 0xb3, 0x5f, 0xff},
     LOAD,
     GPR_RAX,
     0},
    {"mov [rdi-0xa04cc0], esi", 6, {0x89, 0xb7, 0x40, 0xb3, 0x5f, 0xff}, STORE, GPR_RSI, 0},
    {"xchg [rdi+0x10], esi", 3, {0x87, 0x77, 0x10}, EXCHANGE, GPR_RSI, 0},
    {"lock xchg [rdi], r9d", 4, {0xf0, 0x44, 0x87, 0x0f}, EXCHANGE, GPR_R9, 0},
    {"mov dword [0xffffffffff5fb0b0], 0",
     11,
     {0xc7, 0x04, 0x25, 0xb0, 0xb0, 0x5f, 0xff, 0, 0, 0, 0},
     IMMEDIATE,
     NO_REGISTER,
     0},
    {"mov dword [rip+0x100], 0x400",
     10,
     {0xc7, 0x05, 0, 1, 0, 0, 0, 4, 0, 0},
     IMMEDIATE,
     NO_REGISTER,
     0x400},
    {"mov dword [rbx+8], 0x89abcdef",
     7,
     {0xc7, 0x43, 0x08, 0xef, 0xcd, 0xab, 0x89},
     IMMEDIATE,
     NO_REGISTER,
     0x89abcdef},
    /* Addresses: SIB with and without base, displacements, REX.B and REX.X without effect. */
    {"mov r15d, [rax+rbx*4]", 4, {0x44, 0x8b, 0x3c, 0x98}, LOAD, GPR_R15, 0},
    {"mov ecx, [r12+r13*8+0x7f]", 5, {0x43, 0x8b, 0x4c, 0xec, 0x7f}, LOAD, GPR_RCX, 0},
    {"mov ecx, [rbx*8+0x1234]", 7, {0x8b, 0x0c, 0xdd, 0x34, 0x12, 0, 0}, LOAD, GPR_RCX, 0},
    {"mov ecx, [rbp+rax]", 4, {0x8b, 0x4c, 0x05, 0x00}, LOAD, GPR_RCX, 0},
    {"mov ecx, [rbp+rax+0x1234]", 7, {0x8b, 0x8c, 0x05, 0x34, 0x12, 0, 0}, LOAD, GPR_RCX, 0},
    {"mov ecx, [r12]", 4, {0x41, 0x8b, 0x0c, 0x24}, LOAD, GPR_RCX, 0},
    {"mov r12d, [r13+0]", 4, {0x45, 0x8b, 0x65, 0x00}, LOAD, GPR_R12, 0},
    {"mov ecx, [ebx+1]", 4, {0x67, 0x8b, 0x4b, 0x01}, LOAD, GPR_RCX, 0},
    {"mov ecx, gs:[rbx]", 3, {0x65, 0x8b, 0x0b}, LOAD, GPR_RCX, 0},
    {"mov esp, [rbx]", 2, {0x8b, 0x23}, LOAD, GPR_RSP, 0},
    /* The address in the instruction, of the size that addresses have. */
    {"mov eax, [0xfee00020], 64-bit offset",
     9,
     {0xa1, 0x20, 0x00, 0xe0, 0xfe, 0, 0, 0, 0},
     LOAD,
     GPR_RAX,
     0},
    {"mov [0xfee000b0], eax, 64-bit offset",
     9,
     {0xa3, 0xb0, 0x00, 0xe0, 0xfe, 0, 0, 0, 0},
     STORE,
     GPR_RAX,
     0},
    {"the same with REX.R, which counts for ModRM alone",
     10,
     {0x44, 0xa1, 0x20, 0x00, 0xe0, 0xfe, 0, 0, 0, 0},
     LOAD,
     GPR_RAX,
     0},
    {"mov eax, [0xfee00020], 32-bit offset",
     6,
     {0x67, 0xa1, 0x20, 0x00, 0xe0, 0xfe},
     LOAD,
     GPR_RAX,
     0},
    {"mov [0xfee000b0], eax, 32-bit offset, REX behind the prefix",
     7,
     {0x67, 0x40, 0xa3, 0xb0, 0x00, 0xe0, 0xfe},
     STORE,
     GPR_RAX,
     0},
    {"REX before another prefix is void", 4, {0x44, 0x2e, 0x8b, 0x0b}, LOAD, GPR_RCX, 0},
    {"REX before another REX is void", 4, {0x4c, 0x40, 0x8b, 0x0b}, LOAD, GPR_RCX, 0},
};
#define KNOWN (COUNT(known))

enum result { DONE, SHORT, UNKNOWN };

/* Decodes a copy of exactly that length, so that ASan sees a read past the end. */
static enum result decode_exactly(const uint8_t *bytes, unsigned count, struct instruction *out)
{
    uint8_t *copy = malloc(count + (count == 0));

    assert_non_null(copy);
    memcpy(copy, bytes, count);
    bool known_and_whole = decode_instruction(copy, count, out);
    free(copy);
    if (known_and_whole)
        assert_in_range(out->length, 2, count);
    return known_and_whole ? DONE : out->length > count ? SHORT : UNKNOWN;
}

TEST(test_known_forms)
{
    for (unsigned k = 0; k < KNOWN; k++) {
        struct instruction i;
        if (decode_exactly(known[k].bytes, known[k].length, &i) != DONE)
            fail_msg("%s: not decoded", known[k].text);
        unsigned what = (i.loads ? LOAD : 0u) | (i.stores ? STORE : 0u) |
                        (i.has_immediate ? IMMEDIATE : 0u);
        if (i.length != known[k].length || what != known[k].what || i.reg != known[k].reg ||
            i.immediate != known[k].immediate)
            fail_msg("%s: length %u, %u, register %u, immediate 0x%x", known[k].text, i.length,
                     what, i.reg, i.immediate);
    }
}

TEST(test_every_cut_is_short)
{
    for (unsigned k = 0; k < KNOWN; k++)
        for (unsigned count = 0; count < known[k].length; count++) {
            struct instruction i;
            if (decode_exactly(known[k].bytes, count, &i) != SHORT)
                fail_msg("%s: cut to %u bytes", known[k].text, count);
        }
}

TEST(test_refused)
{
    static const struct {
        const char *text;
        unsigned length;
        uint8_t bytes[INSTRUCTION_BYTES_MAX];
    } refused[] = {
        {"mov rcx, [rbx]", 3, {0x48, 0x8b, 0x0b}},
        {"mov cx, [rbx]", 3, {0x66, 0x8b, 0x0b}},
        {"mov cl, [rbx]", 2, {0x8a, 0x0b}},
        {"mov ecx, ebx", 2, {0x8b, 0xcb}},
        {"mov al, [0xfee00020], 64-bit offset", 9, {0xa0, 0x20, 0x00, 0xe0, 0xfe, 0, 0, 0, 0}},
        {"mov rax, [0xfee00020]", 10, {0x48, 0xa1, 0x20, 0x00, 0xe0, 0xfe, 0, 0, 0, 0}},
        {"mov [0xfee000b0], ax", 10, {0x66, 0xa3, 0xb0, 0x00, 0xe0, 0xfe, 0, 0, 0, 0}},
        {"movzx ecx, byte [rbx]", 3, {0x0f, 0xb6, 0x0b}},
        {"add [rsi], ecx", 2, {0x01, 0x0e}},
        {"lock or [rsi], ecx", 3, {0xf0, 0x09, 0x0e}},
        {"adc [rbx], ecx", 2, {0x11, 0x0b}},
        {"and r12d, [r13+0]", 4, {0x45, 0x23, 0x65, 0x00}},
        {"cmp eax, [rsi]", 2, {0x3b, 0x06}},
        {"and dword [rbx+0x340], -2", 7, {0x83, 0xa3, 0x40, 0x03, 0x00, 0x00, 0xfe}},
        {"test [rax], r9d", 3, {0x44, 0x85, 0x08}},
        {"test dword [rax+0x300], 0x1000",
         10,
         {0xf7, 0x80, 0x00, 0x03, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00}},
        {"xacquire xchg [rbx], ecx", 3, {0xf2, 0x87, 0x0b}},
        {"group 11, /1", 6, {0xc7, 0x0b, 0, 0, 0, 0}},
        {"group 11, /1 with REX.R", 7, {0x44, 0xc7, 0x0b, 0, 0, 0, 0}},
        {"push qword [rbx]", 2, {0xff, 0x33}},
        {"rep stosd", 2, {0xf3, 0xab}},
        {"call [rbx]", 2, {0xff, 0x13}},
        {"movups [rbx], xmm0", 3, {0x0f, 0x11, 0x03}},
    };

    for (unsigned k = 0; k < COUNT(refused); k++) {
        struct instruction i;
        if (decode_exactly(refused[k].bytes, refused[k].length, &i) != UNKNOWN)
            fail_msg("%s: not refused", refused[k].text);
    }
}

/* More prefixes than an instruction may have bytes. */
TEST(test_too_long)
{
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    struct instruction i;

    memset(bytes, 0x2e, sizeof(bytes));
    assert_int_equal(decode_exactly(bytes, sizeof(bytes), &i), SHORT);
}

/* Whatever the bytes: nothing is read past the end, what follows an instruction does not matter,
 * and a cut one is short. */
TEST(test_random_bytes)
{
    unsigned done = 0;

    random_seed(3);
    for (unsigned n = 0; n < 200000; n++) {
        uint8_t bytes[INSTRUCTION_BYTES_MAX];
        struct instruction i, again;

        for (unsigned b = 0; b < sizeof(bytes); b++)
            bytes[b] = (uint8_t)random_u64();
        if (n % 2 == 0) /* one of the opcodes first, after a prefix */
            bytes[random_below(2)] = known[random_below(KNOWN)].bytes[random_below(3)];
        if (decode_exactly(bytes, sizeof(bytes), &i) != DONE)
            continue;
        done++;
        assert_in_range(i.reg, 0, GPR_COUNT - 1);
        assert_int_equal(decode_exactly(bytes, i.length, &again), DONE);
        assert_int_equal(again.length, i.length);
        assert_int_equal(again.immediate, i.immediate);
        assert_int_equal(decode_exactly(bytes, i.length - 1u, &again), SHORT);
    }
    assert_in_range(done, 1000, 200000);
}
