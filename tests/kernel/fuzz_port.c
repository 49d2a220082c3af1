/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on I/O ports, at every size and privilege level, one by one and as
 * strings. Only listed ports: a random one could end the machine or its devices.
 * SDM Vol. 2, "IN", "INS", "OUT", "OUTS"; Vol. 3, "I/O-Bitmap Addresses".
 */
#include "fuzz.h"

#include "kernel.h"

#define PREFIX_OPERAND_SIZE 0x66
#define PREFIX_REP 0xf3
#define REP_MAX 9

enum use {
    BOTH,
    READ,     /* not written */
    READ_ANY, /* not written, and what is read is not compared */
};

static const struct port {
    uint16_t first, last;
    enum use use;
    const char *why;
} ports[] = {
    {0x00, 0x0f, READ, "DMA 1: a started transfer would write memory"},
    {0x20, 0x20, READ, "PIC 1: an ICW would unmask its inputs"},
    {0x21, 0x21, READ, "PIC 1: masked for the whole run"},
    {0x40, 0x43, READ_ANY, "PIT: time"},
    {0x60, 0x60, READ_ANY, "keyboard: takes bytes out of its queue"},
    {0x61, 0x61, READ_ANY, "timer output: time"},
    {0x64, 0x64, READ_ANY, "keyboard: a command can reset the machine"},
    {0x70, 0x70, BOTH, "CMOS index"},
    {0x71, 0x71, READ_ANY, "CMOS: the clock, and the machine's settings"},
    {0x80, 0x80, BOTH, "POST code"},
    {0x92, 0x92, READ, "port A: bit 0 resets the machine, bit 1 is A20"},
    {0xa0, 0xa1, READ, "PIC 2, as PIC 1"},
    {0xed, 0xed, BOTH, "delay"},
    {0x2e8, 0x2ef, BOTH, "nobody's: COM4"},
    {0x3da, 0x3da, READ_ANY, "VGA status: time"},
    {0x3ff, 0x3ff, BOTH, "COM1's scratch register"},
    {0x5f0, 0x5ff, BOTH, "nobody's"},
    {0xaff0, 0xafff, BOTH, "nobody's, up to the PM1 event block"},
    {0xcf8, 0xcfb, READ, "PCI index: its neighbour 0xcf9 resets the machine"},
    {0xffe0, 0xffff, BOTH, "nobody's: the last ports"},
};

/* Writes of the PM1 control register, where the hypervisor sees a power-off; never with SLP_EN. */
#define PM1_SLP_EN BIT(13)
#define PM1_SLP_EN_BYTE 1
#define PM1_SLP_EN_IN_BYTE 0x20

static const uint8_t sizes[] = {1, 2, 4};

struct access {
    uint16_t port;
    unsigned bytes;
    bool compared, pm1;
};

static struct access pick(struct fuzz_op *op, bool write)
{
    const struct port *p;
    uint16_t pm1 = machine_pm1a_control();
    struct access a = {.bytes = FUZZ_PICK(op, sizes), .compared = true};

    if (pm1 != 0 && fuzz_chance(op, 40)) {
        a.pm1 = true;
        /* Also those that reach it from below. */
        a.port = (uint16_t)(pm1 - 3 + fuzz_below(op, 5));
        return a;
    }
    do {
        p = &ports[fuzz_below(op, LENGTH_OF(ports))];
    } while (write && p->use != BOTH);
    a.port = (uint16_t)(p->first + fuzz_below(op, (uint64_t)(p->last - p->first) + 1));
    /* More bytes could reach a port that is not listed. */
    if (a.port + a.bytes - 1u > p->last)
        a.bytes = 1;
    a.compared = p->use != READ_ANY;
    return a;
}

/* The value's bytes, with SLP_EN of the register at the access's place cleared. */
static uint32_t without_sleep(const struct access *a, uint32_t value)
{
    int at = machine_pm1a_control() + PM1_SLP_EN_BYTE - a->port;

    if (a->pm1 && at >= 0 && at < 4)
        value &= ~((uint32_t)PM1_SLP_EN_IN_BYTE << 8 * at);
    return value;
}

static void level(struct fuzz_op *op, const struct access *a)
{
    op->subject = a->port;
    op->detail = a->bytes;
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.gpr[RDX] = a->port;
    if (a->bytes == 2)
        CODE(op, PREFIX_OPERAND_SIZE);
}

/* The PM1 control register as it was. A write that the guest may not do is done natively. */
static uint16_t pm1_before;

static void keep_pm1(const struct access *a)
{
    if (a->pm1)
        pm1_before = inw(machine_pm1a_control());
}

static void restore_pm1(const struct access *a)
{
    if (a->pm1)
        outw(machine_pm1a_control(), pm1_before & (uint16_t)~PM1_SLP_EN);
}

void fuzz_in_port(struct fuzz_op *op)
{
    struct access a = pick(op, false);

    level(op, &a);
    CODE(op, a.bytes == 1 ? 0xec : 0xed);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    if (!a.compared && op->vector == FUZZ_DONE)
        op->value[RAX] &= ~(a.bytes == 1 ? 0xffULL : a.bytes == 2 ? 0xffffULL : ~0ULL);
}

void fuzz_out_port(struct fuzz_op *op)
{
    struct access a = pick(op, true);

    level(op, &a);
    fuzz_in.gpr[RAX] = without_sleep(&a, (uint32_t)fuzz_random(op));
    CODE(op, a.bytes == 1 ? 0xee : 0xef);
    keep_pm1(&a);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    restore_pm1(&a);
}

/* INS and OUTS, some with REP, in both directions. */
void fuzz_string(struct fuzz_op *op)
{
    bool out = fuzz_chance(op, 50), rep = fuzz_chance(op, 60);
    struct access a = pick(op, out);

    for (unsigned i = 0; i < DATA_BYTES; i += sizeof(uint32_t))
        if (i >= DATA_MIDDLE - REP_MAX * sizeof(uint32_t) && i < DATA_MIDDLE * 2)
            *(uint32_t *)(fuzz_data + i) = 0;
    level(op, &a);
    fuzz_in.gpr[RCX] = fuzz_below(op, REP_MAX);
    fuzz_in.gpr[RSI] = fuzz_in.gpr[RDI] = fuzz_data_address(op) + DATA_MIDDLE;
    if (fuzz_chance(op, 25))
        fuzz_in.rflags |= BIT(10); /* DF */
    if (rep)
        CODE(op, PREFIX_REP);
    CODE(op, (out ? 0x6e : 0x6c) | (a.bytes != 1));
    keep_pm1(&a);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    restore_pm1(&a);
    op->value[RBX] = fuzz_out.gpr[RDI] ^ fuzz_out.gpr[RSI] << 32;
}
