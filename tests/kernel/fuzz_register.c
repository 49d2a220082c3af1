/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on control and debug registers, XCR0, and XSAVE's state. What a register
 * held when the operation was over is part of the result, also where it faulted.
 * SDM Vol. 2, "MOV-Move to/from Control Registers", "XSETBV", "XRSTORS"; Vol. 3, "Debug Registers".
 */
#include "fuzz.h"

#include <string.h>

#include "kernel.h"

#define CR4_BITS_TRIED BITS(28, 0)
#define CR3_LOW 0xfffULL
#define DR7_FIXED BIT(10)
#define XSAVE_HEADER 512
#define XSAVE_MXCSR 24
#define MXCSR_DEFAULT 0x1f80
#define XCOMP_COMPACT BIT(63)

static uint64_t flipped(struct fuzz_op *op, uint64_t value, uint64_t among)
{
    for (unsigned i = 1 + (unsigned)fuzz_below(op, 3); i > 0; i--)
        value ^= BIT(fuzz_below(op, 64)) & among;
    return value;
}

/* MOV to CRn from RAX, then MOV from it to RDX. */
static void write_cr(struct fuzz_op *op, unsigned number, uint64_t value)
{
    op->subject = value;
    fuzz_level(op, false);
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = value;
    CODE(op, 0x0f, 0x22, (uint8_t)(0xc0 | number << 3), 0x0f, 0x20, (uint8_t)(0xc2 | number << 3));
    (void)fuzz_go(op);
    fuzz_keep(op, true);
}

void fuzz_cr0(struct fuzz_op *op)
{
    /* Paging cannot go off in 64-bit mode, which is why this is 64-bit code. */
    write_cr(op, 0, fuzz_chance(op, 85) ? flipped(op, fuzz_base.cr0, ~0ULL) : fuzz_number(op));
    op->value[RBX] = fuzz_out.cr0;
}

void fuzz_cr3(struct fuzz_op *op)
{
    static const uint64_t high[] = {0, 0, BIT(63), BIT(51), BIT(40), BIT(62), BITS(62, 52)};
    uint64_t value = (fuzz_random(op) & CR3_LOW) | FUZZ_PICK(op, high);

    /* Where the tables lie differs between the two runs. */
    write_cr(op, 3, fuzz_base.cr3 | value);
    op->subject = value;
    op->value[RAX] ^= fuzz_base.cr3;
    op->value[RDX] ^= op->vector == FUZZ_DONE ? fuzz_base.cr3 : 0;
    op->value[RBX] = fuzz_out.cr3 ^ fuzz_base.cr3;
}

void fuzz_cr4(struct fuzz_op *op)
{
    write_cr(op, 4,
             fuzz_chance(op, 85) ? flipped(op, fuzz_base.cr4, CR4_BITS_TRIED) : fuzz_number(op));
    op->value[RBX] = fuzz_out.cr4;
}

void fuzz_cr8(struct fuzz_op *op)
{
    uint64_t value = fuzz_chance(op, 70) ? fuzz_below(op, 16) : fuzz_number(op);

    op->subject = value;
    fuzz_level(op, false);
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = value;
    CODE(op, 0x44, 0x0f, 0x22, 0xc0, 0x44, 0x0f, 0x20, 0xc2);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
}

/* Control registers that there are not, CLTS, LMSW, SMSW. */
void fuzz_cr_other(struct fuzz_op *op)
{
    static const uint8_t absent[] = {1, 5, 6, 7};
    uint8_t number = FUZZ_PICK(op, absent);
    uint64_t which = fuzz_below(op, 5);

    op->subject = which;
    fuzz_level(op, which >= 2);
    fuzz_begin(op);
    if (which == 0)
        CODE(op, 0x0f, 0x22, (uint8_t)(0xc0 | number << 3));
    else if (which == 1)
        CODE(op, 0x0f, 0x20, (uint8_t)(0xc0 | number << 3));
    else if (which == 2)
        CODE(op, 0x0f, 0x06); /* CLTS */
    else if (which == 3)
        CODE(op, 0x0f, 0x01, 0xf0); /* LMSW AX */
    else
        CODE(op, 0x0f, 0x01, 0xe0); /* SMSW EAX */
    (void)fuzz_go(op);
    fuzz_keep(op, true);
}

/* Breakpoints lie on the operation's own code and data, else they would stop the fuzzer. */
void fuzz_dr(struct fuzz_op *op)
{
    uint8_t number = (uint8_t)fuzz_below(op, 8);
    uint64_t value;

    fuzz_level(op, false);
    if (number < 4)
        value = fuzz_chance(op, 50) ? fuzz_data_address(op) + fuzz_below(op, 16) : fuzz_number(op);
    else if (number == 7 || number == 5)
        value = fuzz_chance(op, 70) ? (uint32_t)fuzz_random(op) | DR7_FIXED : fuzz_number(op);
    else
        value = fuzz_chance(op, 70) ? (uint32_t)fuzz_random(op) : fuzz_number(op);
    fuzz_begin(op);
    op->subject = number;
    op->detail = value;
    fuzz_in.gpr[RAX] = value;
    fuzz_in.gpr[RBX] = fuzz_data_address(op) + fuzz_below(op, 16);
    /* MOV DR0, RBX; MOV DRn, RAX; an access to data; MOV RDX, DR6; MOV RCX, DRn: with DR7.GD one of
     * these raises #DB, which clears it. */
    CODE(op, 0x0f, 0x23, 0xc3, 0x0f, 0x23, (uint8_t)(0xc0 | number << 3), 0x8a, 0x0f, 0x0f, 0x21,
         0xf2, 0x0f, 0x21, (uint8_t)(0xc1 | number << 3));
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    op->code_32 = false;
    struct fuzz_op restore = {.cpl = 0};
    fuzz_begin(&restore);
    fuzz_in.gpr[RAX] = DR7_FIXED;
    fuzz_in.gpr[RDX] = 0;
    CODE(&restore, 0x0f, 0x23, 0xf8, 0x0f, 0x23, 0xc2, 0x0f, 0x23, 0xca, 0x0f, 0x23, 0xd2, 0x0f,
         0x23, 0xda, 0x0f, 0x23, 0xf2);
    (void)fuzz_go(&restore);
}

void fuzz_xsetbv(struct fuzz_op *op)
{
    uint64_t before = read_xcr0();
    uint64_t value = fuzz_chance(op, 60) ? (fuzz_random(op) & 0x3ff) | fuzz_chance(op, 80)
                                         : fuzz_number(op);

    op->subject = value;
    op->detail = fuzz_chance(op, 85) ? 0 : fuzz_number(op);
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.gpr[RCX] = op->detail;
    fuzz_in.gpr[RAX] = (uint32_t)value;
    fuzz_in.gpr[RDX] = value >> 32;
    CODE(op, 0x0f, 0x01, 0xd1, 0x0f, 0x01, 0xd0);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    op->value[RBX] = read_xcr0();
    write_xcr0(before);
}

void fuzz_xstate(struct fuzz_op *op)
{
    static const struct {
        uint8_t prefix, second, modrm; /* of 0F xx; the operand is [RDI] */
    } instructions[] = {
        {0x48, 0xae, 0x27}, /* XSAVE */
        {0x48, 0xc7, 0x27}, /* XSAVEC */
        {0x48, 0xc7, 0x2f}, /* XSAVES */
        {0x48, 0xae, 0x37}, /* XSAVEOPT */
        {0x48, 0xae, 0x2f}, /* XRSTOR */
        {0x48, 0xc7, 0x1f}, /* XRSTORS */
    };
    unsigned which = (unsigned)fuzz_below(op, LENGTH_OF(instructions));
    uint64_t *header = (uint64_t *)(fuzz_data + XSAVE_HEADER);

    op->subject = which;
    fuzz_level(op, false);
    uint64_t mask = fuzz_chance(op, 60) ? fuzz_below(op, 1024) : fuzz_number(op);
    op->detail = mask;
    memset(fuzz_data, 0, XSAVE_HEADER + 64);
    *(uint32_t *)(fuzz_data + XSAVE_MXCSR) = MXCSR_DEFAULT;
    header[0] = fuzz_chance(op, 80) ? mask & 0x2e7 : fuzz_number(op);
    header[1] = fuzz_chance(op, 50) ? header[0] | XCOMP_COMPACT : 0;
    if (fuzz_chance(op, 10))
        header[fuzz_below(op, 8)] = fuzz_number(op);
    fuzz_begin(op);
    /* The stack is not to be written over. */
    fuzz_in.rsp = fuzz_data_address(op) + DATA_BYTES;
    fuzz_in.gpr[RAX] = (uint32_t)mask;
    fuzz_in.gpr[RDX] = mask >> 32;
    if (fuzz_chance(op, 10))
        fuzz_in.gpr[RDI] += 8; /* not aligned */
    CODE(op, instructions[which].prefix, 0x0f, instructions[which].second,
         instructions[which].modrm);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    op->value[0] = header[1];
}
