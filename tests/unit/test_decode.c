/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: every form that it knows, what it must refuse, no byte read past the end.
 */
#include "unit.h"

#include "random.h"
#include "vmx/cpu.h"
#include "vmx/decode.h"

#define NO_REGISTER 0
#define CODE(text) text, sizeof(text) - 1

enum { LOAD = 1, STORE = 2, EXCHANGE = LOAD | STORE, IMMEDIATE = 4 | STORE };

struct known {
    const char *text; /* Intel syntax */
    const char *bytes;
    unsigned length;
    unsigned what;
    uint8_t reg;
    uint32_t immediate;
};

static const struct known known[] = {
    /* What Linux and the compilers make of a dword in memory. */
    {"mov [0xffffffffff5fb340], esi", CODE("\x89\x34\x25\x40\xb3\x5f\xff"), STORE, GPR_RSI, 0},
    {"mov eax, [0xffffffffff5fb340]", CODE("\x8b\x04\x25\x40\xb3\x5f\xff"), LOAD, GPR_RAX, 0},
    {"mov [rdi-0xa04cc0], esi", CODE("\x89\xb7\x40\xb3\x5f\xff"), STORE, GPR_RSI, 0},
    {"xchg [rdi+0x10], esi", CODE("\x87\x77\x10"), EXCHANGE, GPR_RSI, 0},
    {"lock xchg [rdi], r9d", CODE("\xf0\x44\x87\x0f"), EXCHANGE, GPR_R9, 0},
    {"mov dword [0xffffffffff5fb0b0], 0", CODE("\xc7\x04\x25\xb0\xb0\x5f\xff\x00\x00\x00\x00"),
     IMMEDIATE, NO_REGISTER, 0},
    {"mov dword [rip+0x100], 0x400", CODE("\xc7\x05\x00\x01\x00\x00\x00\x04\x00\x00"), IMMEDIATE,
     NO_REGISTER, 0x400},
    {"mov dword [rbx+8], 0x89abcdef", CODE("\xc7\x43\x08\xef\xcd\xab\x89"), IMMEDIATE, NO_REGISTER,
     0x89abcdef},
    /* Addresses: SIB with and without base, displacements, REX.B and REX.X without effect. */
    {"mov r15d, [rax+rbx*4]", CODE("\x44\x8b\x3c\x98"), LOAD, GPR_R15, 0},
    {"mov ecx, [r12+r13*8+0x7f]", CODE("\x43\x8b\x4c\xec\x7f"), LOAD, GPR_RCX, 0},
    {"mov ecx, [rbx*8+0x1234]", CODE("\x8b\x0c\xdd\x34\x12\x00\x00"), LOAD, GPR_RCX, 0},
    {"mov ecx, [rbp+rax]", CODE("\x8b\x4c\x05\x00"), LOAD, GPR_RCX, 0},
    {"mov ecx, [rbp+rax+0x1234]", CODE("\x8b\x8c\x05\x34\x12\x00\x00"), LOAD, GPR_RCX, 0},
    {"mov ecx, [r12]", CODE("\x41\x8b\x0c\x24"), LOAD, GPR_RCX, 0},
    {"mov r12d, [r13+0]", CODE("\x45\x8b\x65\x00"), LOAD, GPR_R12, 0},
    {"mov ecx, [ebx+1]", CODE("\x67\x8b\x4b\x01"), LOAD, GPR_RCX, 0},
    {"mov ecx, gs:[rbx]", CODE("\x65\x8b\x0b"), LOAD, GPR_RCX, 0},
    {"mov esp, [rbx]", CODE("\x8b\x23"), LOAD, GPR_RSP, 0},
    /* The address in the instruction, of the size that addresses have. */
    {"mov eax, [0xfee00020], 64-bit offset", CODE("\xa1\x20\x00\xe0\xfe\x00\x00\x00\x00"), LOAD,
     GPR_RAX, 0},
    {"mov [0xfee000b0], eax, 64-bit offset", CODE("\xa3\xb0\x00\xe0\xfe\x00\x00\x00\x00"), STORE,
     GPR_RAX, 0},
    {"the same with REX.R, which counts for ModRM alone",
     CODE("\x44\xa1\x20\x00\xe0\xfe\x00\x00\x00\x00"), LOAD, GPR_RAX, 0},
    {"mov eax, [0xfee00020], 32-bit offset", CODE("\x67\xa1\x20\x00\xe0\xfe"), LOAD, GPR_RAX, 0},
    {"mov [0xfee000b0], eax, 32-bit offset, REX behind the prefix",
     CODE("\x67\x40\xa3\xb0\x00\xe0\xfe"), STORE, GPR_RAX, 0},
    {"REX before another prefix is void", CODE("\x44\x2e\x8b\x0b"), LOAD, GPR_RCX, 0},
    {"REX before another REX is void", CODE("\x4c\x40\x8b\x0b"), LOAD, GPR_RCX, 0},
};
#define KNOWN (COUNT(known))

enum result { DONE, SHORT, UNKNOWN };

/* Decodes a copy of exactly that length, so that ASan sees a read past the end. */
static enum result decode_exactly(const void *bytes, unsigned count, struct instruction *out)
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
        const char *bytes;
        unsigned length;
    } refused[] = {
        {"mov rcx, [rbx]", CODE("\x48\x8b\x0b")},
        {"mov cx, [rbx]", CODE("\x66\x8b\x0b")},
        {"mov cl, [rbx]", CODE("\x8a\x0b")},
        {"mov ecx, ebx", CODE("\x8b\xcb")},
        {"mov al, [0xfee00020], 64-bit offset", CODE("\xa0\x20\x00\xe0\xfe\x00\x00\x00\x00")},
        {"mov rax, [0xfee00020]", CODE("\x48\xa1\x20\x00\xe0\xfe\x00\x00\x00\x00")},
        {"mov [0xfee000b0], ax", CODE("\x66\xa3\xb0\x00\xe0\xfe\x00\x00\x00\x00")},
        {"movzx ecx, byte [rbx]", CODE("\x0f\xb6\x0b")},
        {"add [rsi], ecx", CODE("\x01\x0e")},
        {"lock or [rsi], ecx", CODE("\xf0\x09\x0e")},
        {"adc [rbx], ecx", CODE("\x11\x0b")},
        {"and r12d, [r13+0]", CODE("\x45\x23\x65\x00")},
        {"cmp eax, [rsi]", CODE("\x3b\x06")},
        {"and dword [rbx+0x340], -2", CODE("\x83\xa3\x40\x03\x00\x00\xfe")},
        {"test [rax], r9d", CODE("\x44\x85\x08")},
        {"test dword [rax+0x300], 0x1000", CODE("\xf7\x80\x00\x03\x00\x00\x00\x10\x00\x00")},
        {"xacquire xchg [rbx], ecx", CODE("\xf2\x87\x0b")},
        {"group 11, /1", CODE("\xc7\x0b\x00\x00\x00\x00")},
        {"group 11, /1 with REX.R", CODE("\x44\xc7\x0b\x00\x00\x00\x00")},
        {"push qword [rbx]", CODE("\xff\x33")},
        {"rep stosd", CODE("\xf3\xab")},
        {"call [rbx]", CODE("\xff\x13")},
        {"movups [rbx], xmm0", CODE("\x0f\x11\x03")},
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
            bytes[random_below(2)] = (uint8_t)known[random_below(KNOWN)].bytes[random_below(3)];
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
