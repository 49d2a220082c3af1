/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: every form that it knows in every code size, what it must refuse, no byte read past
 * the end. And what the instructions do, against this machine's own processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu.h"
#include "random.h"
#include "vmx/decode.h"
#include "x86.h"

#define NO_REGISTER 0

struct known {
    const char *text; /* Intel syntax */
    enum code_size size;
    unsigned length;
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    enum operation operation;
    bool memory_first, has_immediate;
    uint8_t reg;
    uint32_t immediate;
};

static const struct known known[] = {
    /* What Linux and the compilers make of a dword in memory. */
    {"mov [0xffffffffff5fb340], esi", CODE_64, 7, {0x89, 0x34, 0x25, 0x40, 0xb3, 0x5f, 0xff},
     OPERATION_MOV, true, false, GPR_RSI, 0},
    {"mov eax, [0xffffffffff5fb340]", CODE_64, 7, {0x8b, 0x04, 0x25, 0x40, 0xb3, 0x5f, 0xff},
     OPERATION_MOV, false, false, GPR_RAX, 0},
    {"mov [rdi-0xa04cc0], esi", CODE_64, 6, {0x89, 0xb7, 0x40, 0xb3, 0x5f, 0xff},
     OPERATION_MOV, true, false, GPR_RSI, 0},
    {"xchg [rdi+0x10], esi", CODE_64, 3, {0x87, 0x77, 0x10}, OPERATION_XCHG, true, false, GPR_RSI,
     0},
    {"mov dword [0xffffffffff5fb0b0], 0", CODE_64, 11,
     {0xc7, 0x04, 0x25, 0xb0, 0xb0, 0x5f, 0xff, 0, 0, 0, 0}, OPERATION_MOV, true, true,
     NO_REGISTER, 0},
    {"mov dword [rip+0x100], 0x400", CODE_64, 10, {0xc7, 0x05, 0, 1, 0, 0, 0, 4, 0, 0},
     OPERATION_MOV, true, true, NO_REGISTER, 0x400},
    {"mov eax, [0xfee00020], 64-bit offset", CODE_64, 9,
     {0xa1, 0x20, 0x00, 0xe0, 0xfe, 0, 0, 0, 0}, OPERATION_MOV, false, false, GPR_RAX, 0},
    {"mov [0xfee000b0], eax, 32-bit offset", CODE_64, 6, {0x67, 0xa3, 0xb0, 0x00, 0xe0, 0xfe},
     OPERATION_MOV, true, false, GPR_RAX, 0},
    {"mov eax, [0xfee00020]", CODE_32, 5, {0xa1, 0x20, 0x00, 0xe0, 0xfe}, OPERATION_MOV, false,
     false, GPR_RAX, 0},
    {"mov [0xfee000b0], ebx", CODE_32, 6, {0x89, 0x1d, 0xb0, 0x00, 0xe0, 0xfe}, OPERATION_MOV, true,
     false, GPR_RBX, 0},
    {"mov eax, [0x20], 16-bit offset", CODE_32, 4, {0x67, 0xa1, 0x20, 0x00}, OPERATION_MOV, false,
     false, GPR_RAX, 0},
    {"test dword [rax+0x300], 0x1000", CODE_64, 10,
     {0xf7, 0x80, 0x00, 0x03, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00}, OPERATION_TEST, true, true,
     NO_REGISTER, 0x1000},
    {"test [rax], r9d", CODE_64, 3, {0x44, 0x85, 0x08}, OPERATION_TEST, true, false, GPR_R9, 0},
    {"or dword [rbx+0xf0], 0x100", CODE_64, 10,
     {0x81, 0x8b, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00}, OPERATION_OR, true, true,
     NO_REGISTER, 0x100},
    {"and dword [rbx+0x340], -2", CODE_64, 7, {0x83, 0xa3, 0x40, 0x03, 0x00, 0x00, 0xfe},
     OPERATION_AND, true, true, NO_REGISTER, 0xfffffffe},
    {"cmp dword [rbx], 0x10", CODE_64, 3, {0x83, 0x3b, 0x10}, OPERATION_CMP, true, true,
     NO_REGISTER, 0x10},
    {"and r12d, [r13+0]", CODE_64, 4, {0x45, 0x23, 0x65, 0x00}, OPERATION_AND, false, false,
     GPR_R12, 0},
    {"cmp eax, [rsi]", CODE_64, 2, {0x3b, 0x06}, OPERATION_CMP, false, false, GPR_RAX, 0},
    {"lock or [rsi], ecx", CODE_64, 3, {0xf0, 0x09, 0x0e}, OPERATION_OR, true, false, GPR_RCX, 0},
    {"add [rsi], ecx", CODE_64, 2, {0x01, 0x0e}, OPERATION_ADD, true, false, GPR_RCX, 0},
    {"sub ecx, [rsi]", CODE_64, 2, {0x2b, 0x0e}, OPERATION_SUB, false, false, GPR_RCX, 0},
    {"xor [rsi], ecx", CODE_64, 2, {0x31, 0x0e}, OPERATION_XOR, true, false, GPR_RCX, 0},
    /* Addresses: SIB with and without base, displacements, REX.B and REX.X without effect. */
    {"mov r15d, [rax+rbx*4]", CODE_64, 4, {0x44, 0x8b, 0x3c, 0x98}, OPERATION_MOV, false, false,
     GPR_R15, 0},
    {"mov ecx, [r12+r13*8+0x7f]", CODE_64, 5, {0x43, 0x8b, 0x4c, 0xec, 0x7f}, OPERATION_MOV, false,
     false, GPR_RCX, 0},
    {"mov ecx, [rbx*8+0x1234]", CODE_64, 7, {0x8b, 0x0c, 0xdd, 0x34, 0x12, 0, 0}, OPERATION_MOV,
     false, false, GPR_RCX, 0},
    {"mov ecx, [rbp+rax]", CODE_64, 4, {0x8b, 0x4c, 0x05, 0x00}, OPERATION_MOV, false, false,
     GPR_RCX, 0},
    {"mov ecx, [r12]", CODE_64, 4, {0x41, 0x8b, 0x0c, 0x24}, OPERATION_MOV, false, false, GPR_RCX,
     0},
    {"mov ecx, [ebx+1]", CODE_64, 4, {0x67, 0x8b, 0x4b, 0x01}, OPERATION_MOV, false, false, GPR_RCX,
     0},
    {"mov ecx, gs:[rbx]", CODE_64, 3, {0x65, 0x8b, 0x0b}, OPERATION_MOV, false, false, GPR_RCX, 0},
    {"mov esp, [rbx]", CODE_64, 2, {0x8b, 0x23}, OPERATION_MOV, false, false, GPR_RSP, 0},
    {"REX before another prefix is void", CODE_64, 4, {0x44, 0x2e, 0x8b, 0x0b}, OPERATION_MOV,
     false, false, GPR_RCX, 0},
    /* 16-bit addressing and 16-bit code. */
    {"mov ecx, [bx+si]", CODE_32, 3, {0x67, 0x8b, 0x08}, OPERATION_MOV, false, false, GPR_RCX, 0},
    {"mov ecx, [0x1234]", CODE_32, 5, {0x67, 0x8b, 0x0e, 0x34, 0x12}, OPERATION_MOV, false, false,
     GPR_RCX, 0},
    {"mov ecx, [bp+1]", CODE_16, 4, {0x66, 0x8b, 0x4e, 0x01}, OPERATION_MOV, false, false, GPR_RCX,
     0},
    {"mov [di+0x1234], edx", CODE_16, 5, {0x66, 0x89, 0x95, 0x34, 0x12}, OPERATION_MOV, true, false,
     GPR_RDX, 0},
    {"mov dword [esi], 0xc4500", CODE_16, 8, {0x67, 0x66, 0xc7, 0x06, 0x00, 0x45, 0x0c, 0x00},
     OPERATION_MOV, true, true, NO_REGISTER, 0xc4500},
    {"mov eax, [0x20], 16-bit code", CODE_16, 4, {0x66, 0xa1, 0x20, 0x00}, OPERATION_MOV, false,
     false, GPR_RAX, 0},
    {"mov eax, [0xfee00020], 16-bit code", CODE_16, 7,
     {0x66, 0x67, 0xa1, 0x20, 0x00, 0xe0, 0xfe}, OPERATION_MOV, false, false, GPR_RAX, 0},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

/* Decodes a copy of exactly that length, so that ASan sees a read past the end. */
static enum decode_result decode_exactly(const uint8_t *bytes, unsigned count, enum code_size size,
                                         struct instruction *out)
{
    uint8_t *copy = malloc(count + (count == 0));

    assert_non_null(copy);
    memcpy(copy, bytes, count);
    enum decode_result result = decode(copy, count, size, out);
    free(copy);
    return result;
}

static void test_known_forms(void **state)
{
    (void)state;
    for (unsigned k = 0; k < KNOWN; k++) {
        struct instruction i;
        if (decode_exactly(known[k].bytes, known[k].length, known[k].size, &i) != DECODE_DONE)
            fail_msg("%s: not decoded", known[k].text);
        if (i.length != known[k].length || i.operation != known[k].operation ||
            i.memory_first != known[k].memory_first || i.reg != known[k].reg ||
            i.has_immediate != known[k].has_immediate || i.immediate != known[k].immediate)
            fail_msg("%s: length %u operation %d memory first %d register %u immediate %d 0x%x",
                     known[k].text, i.length, i.operation, i.memory_first, i.reg, i.has_immediate,
                     i.immediate);
    }
}

static void test_every_cut_is_short(void **state)
{
    (void)state;
    for (unsigned k = 0; k < KNOWN; k++)
        for (unsigned count = 0; count < known[k].length; count++) {
            struct instruction i;
            if (decode_exactly(known[k].bytes, count, known[k].size, &i) != DECODE_SHORT)
                fail_msg("%s: cut to %u bytes", known[k].text, count);
        }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        enum code_size size;
        unsigned length;
        uint8_t bytes[INSTRUCTION_BYTES_MAX];
    } refused[] = {
        {"mov rcx, [rbx]", CODE_64, 3, {0x48, 0x8b, 0x0b}},
        {"mov cx, [rbx]", CODE_64, 3, {0x66, 0x8b, 0x0b}},
        {"mov cl, [rbx]", CODE_64, 2, {0x8a, 0x0b}},
        {"mov cx, [bx], 16-bit code", CODE_16, 2, {0x8b, 0x0f}},
        {"mov ecx, ebx", CODE_64, 2, {0x8b, 0xcb}},
        {"movzx ecx, byte [rbx]", CODE_64, 3, {0x0f, 0xb6, 0x0b}},
        {"adc [rbx], ecx", CODE_64, 2, {0x11, 0x0b}},
        {"sbb dword [rbx], 1", CODE_64, 3, {0x83, 0x1b, 0x01}},
        {"not dword [rbx]", CODE_64, 2, {0xf7, 0x13}},
        {"group 11, /1", CODE_64, 6, {0xc7, 0x0b, 0, 0, 0, 0}},
        {"push qword [rbx]", CODE_64, 2, {0xff, 0x33}},
        {"rep stosd", CODE_64, 2, {0xf3, 0xab}},
        {"call [rbx]", CODE_64, 2, {0xff, 0x13}},
        {"inc eax, which is a REX elsewhere", CODE_32, 3, {0x44, 0x8b, 0x0b}},
        {"movups [rbx], xmm0", CODE_64, 3, {0x0f, 0x11, 0x03}},
    };

    (void)state;
    for (unsigned k = 0; k < sizeof(refused) / sizeof(refused[0]); k++) {
        struct instruction i;
        if (decode_exactly(refused[k].bytes, refused[k].length, refused[k].size, &i) !=
            DECODE_UNKNOWN)
            fail_msg("%s: not refused", refused[k].text);
    }
}

/* More prefixes than an instruction may have bytes. */
static void test_too_long(void **state)
{
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    struct instruction i;

    (void)state;
    memset(bytes, 0x2e, sizeof(bytes));
    assert_int_equal(decode_exactly(bytes, sizeof(bytes), CODE_64, &i), DECODE_SHORT);
}

/* Whatever the bytes: nothing is read past the end, what follows an instruction does not matter,
 * and a cut one is short. */
static void test_random_bytes(void **state)
{
    unsigned done = 0;

    (void)state;
    random_seed(3);
    for (unsigned n = 0; n < 200000; n++) {
        uint8_t bytes[INSTRUCTION_BYTES_MAX];
        enum code_size size = (enum code_size)random_below(3);
        struct instruction i, again;

        for (unsigned b = 0; b < sizeof(bytes); b++)
            bytes[b] = (uint8_t)random_u64();
        if (n % 2 == 0) /* one of the opcodes first, after a prefix */
            bytes[random_below(2)] = known[random_below(KNOWN)].bytes[random_below(3)];
        if (decode_exactly(bytes, sizeof(bytes), size, &i) != DECODE_DONE)
            continue;
        done++;
        assert_in_range(i.length, 2, sizeof(bytes));
        assert_in_range(i.reg, 0, GPR_COUNT - 1);
        assert_int_equal(decode_exactly(bytes, i.length, size, &again), DECODE_DONE);
        assert_int_equal(again.length, i.length);
        assert_int_equal(again.immediate, i.immediate);
        assert_int_equal(decode_exactly(bytes, i.length - 1u, size, &again), DECODE_SHORT);
    }
    assert_in_range(done, 1000, 200000);
}

/* ---- what they do ---- */

#define STATUS (RFLAGS_CF | RFLAGS_PF | RFLAGS_AF | RFLAGS_ZF | RFLAGS_SF | RFLAGS_OF)

#define ON_PROCESSOR(instruction)                                                                  \
    __asm__("lea -128(%%rsp), %%rsp\n\t" /* past the red zone */                                  \
            "push %[flags]\n\t"                                                                    \
            "popf\n\t" instruction " %[b], %[a]\n\t"                                               \
            "pushf\n\t"                                                                            \
            "pop %[flags]\n\t"                                                                     \
            "lea 128(%%rsp), %%rsp"                                                                \
            : [a] "+r"(a), [flags] "+r"(flags)                                                     \
            : [b] "r"(b)                                                                           \
            : "cc", "memory")

/* The processor's own answer: *first becomes the result, and its flags are given. */
static uint64_t processor(enum operation operation, uint32_t *first, uint32_t b, uint64_t flags)
{
    uint32_t a = *first;

    switch (operation) {
    case OPERATION_ADD:
        ON_PROCESSOR("addl");
        break;
    case OPERATION_OR:
        ON_PROCESSOR("orl");
        break;
    case OPERATION_AND:
        ON_PROCESSOR("andl");
        break;
    case OPERATION_SUB:
        ON_PROCESSOR("subl");
        break;
    case OPERATION_XOR:
        ON_PROCESSOR("xorl");
        break;
    case OPERATION_CMP:
        ON_PROCESSOR("cmpl");
        break;
    case OPERATION_TEST:
        ON_PROCESSOR("testl");
        break;
    default:
        ON_PROCESSOR("movl");
        break;
    }
    *first = a;
    return flags;
}

static uint32_t random_operand(void)
{
    static const uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x10, 0xf};

    return random_below(2) ? (uint32_t)random_u64() : edges[random_below(7)];
}

static void test_execute_as_the_processor(void **state)
{
    static const enum operation operations[] = {
        OPERATION_ADD, OPERATION_OR,   OPERATION_AND, OPERATION_SUB, OPERATION_XOR,
        OPERATION_CMP, OPERATION_TEST, OPERATION_MOV};

    (void)state;
    random_seed(4);
    for (unsigned n = 0; n < 200000; n++) {
        struct instruction i = {.operation = operations[random_below(8)],
                                .memory_first = random_below(2),
                                .has_immediate = random_below(2)};
        i.memory_first |= i.has_immediate;
        uint32_t memory = random_operand(), reg = random_operand();
        i.immediate = random_operand();
        uint32_t other = i.has_immediate ? i.immediate : reg;
        uint32_t result = i.memory_first ? memory : other;
        uint64_t before = RFLAGS_FIXED | RFLAGS_IF | (random_u64() & STATUS), rflags = before;
        struct effect effect = execute(&i, memory, reg, &rflags);
        uint64_t wanted = processor(i.operation, &result, i.memory_first ? other : memory, before);
        bool logic = i.operation == OPERATION_OR || i.operation == OPERATION_AND ||
                     i.operation == OPERATION_XOR || i.operation == OPERATION_TEST;
        uint64_t compared = logic ? STATUS & ~RFLAGS_AF : STATUS;

        if ((rflags & compared) != (wanted & compared))
            fail_msg("operation %d of 0x%x, 0x%x: flags 0x%lx, processor 0x%lx", i.operation,
                     memory, other, rflags & compared, wanted & compared);
        assert_int_equal(rflags & ~STATUS, before & ~STATUS);
        bool writes = i.operation != OPERATION_CMP && i.operation != OPERATION_TEST;
        assert_int_equal(effect.writes_memory, writes && i.memory_first);
        assert_int_equal(effect.writes_register, writes && !i.memory_first);
        if (effect.writes_memory)
            assert_int_equal(effect.memory, result);
        if (effect.writes_register)
            assert_int_equal(effect.reg, result);
    }
}

static void test_exchange(void **state)
{
    struct instruction i = {.operation = OPERATION_XCHG, .memory_first = true};
    uint64_t rflags = STATUS;
    struct effect effect = execute(&i, 1, 2, &rflags);

    (void)state;
    assert_true(effect.writes_memory && effect.writes_register);
    assert_int_equal(effect.memory, 2);
    assert_int_equal(effect.reg, 1);
    assert_int_equal(rflags, STATUS);
}

/* A store to a device must not read it; everything else does. */
static void test_reads_memory(void **state)
{
    (void)state;
    for (unsigned k = 0; k < KNOWN; k++) {
        struct instruction i;
        assert_int_equal(decode(known[k].bytes, known[k].length, known[k].size, &i), DECODE_DONE);
        bool store = known[k].operation == OPERATION_MOV && known[k].memory_first;
        assert_int_equal(reads_memory(&i), !store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_forms),
        cmocka_unit_test(test_every_cut_is_short),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_execute_as_the_processor),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_reads_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
