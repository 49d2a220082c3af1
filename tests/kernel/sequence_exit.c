/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Parts of sequences that exit, or may under some row of options: CPUID, MSRs, control registers,
 * ports, hypercalls, the local APIC, sleep. SDM Vol. 3, "VMX Non-Root Operation".
 */
#include "sequence.h"

#include "hypercall.h"

#define APIC_ICR 0x300u
#define CR0_CD BIT(30)
#define CR0_AM BIT(18)
#define CR4_PGE BIT(7)
#define EAX_IGNORED BIT(RAX)
#define EDX_IGNORED BIT(RDX)

static void cpuid_part(struct sequence *s)
{
    static const uint32_t leaves[] = {0, 7, 4, 0x80000000, 0x80000008, 0xa};

    sequence_load(s, RAX, SEQUENCE_PICK(s, leaves));
    PUT(s, OPERAND_32, 0x31, 0xc9); /* XOR ECX, ECX */
    PUT(s, 0, 0x0f, 0xa2);
    s->exits = true;
}

/* MOV EAX, CRn; XOR EAX, constant; MOV CRn, EAX; MOV EBX, CRn */
static void change_cr(struct sequence *s, unsigned cr, uint32_t toggled)
{
    uint8_t from = (uint8_t)(0xc0 | cr << 3);

    PUT(s, 0, 0x0f, 0x20, from);
    PUT(s, OPERAND_32, 0x35, (uint8_t)toggled, (uint8_t)(toggled >> 8), (uint8_t)(toggled >> 16),
        (uint8_t)(toggled >> 24));
    PUT(s, 0, 0x0f, 0x22, from);
    PUT(s, 0, 0x0f, 0x20, (uint8_t)(from | RBX));
}

static void cr0_part(struct sequence *s)
{
    static const uint32_t bits[] = {CR0_NE,          CR0_NE | CR0_TS, CR0_NE | CR0_AM,
                                    CR0_TS,          CR0_MP,          CR0_NE | CR0_NW,
                                    CR0_NE | CR0_PE, CR0_WP,          CR0_NE | CR0_WP};

    change_cr(s, 0, SEQUENCE_PICK(s, bits));
}

static void cr4_part(struct sequence *s)
{
    static const uint32_t bits[] = {CR4_OSXSAVE,
                                    CR4_OSXSAVE | CR4_TSD,
                                    CR4_OSXSAVE | CR4_PCE,
                                    CR4_TSD,
                                    CR4_PGE,
                                    CR4_OSXSAVE | CR4_PAE,
                                    CR4_PAE,
                                    CR4_DE,
                                    CR4_OSXSAVE | CR4_PGE};

    change_cr(s, 4, SEQUENCE_PICK(s, bits));
}

/* The same tables, most often by another value: one that is loaded again need not exit. */
static void cr3_part(struct sequence *s)
{
    static const uint32_t bits[] = {0, CR3_PWT, CR3_PCD, CR3_PWT | CR3_PCD};

    change_cr(s, 3, SEQUENCE_PICK(s, bits));
}

/* A bit that is reserved, or one of an address that the processor does not have: MOV RAX, CR3; BTC
 * RAX, n; MOV CR3, RAX. */
static void cr3_fault_part(struct sequence *s)
{
    static const uint8_t bits[] = {63, 62, 58, 52, 51, 51};

    if (s->bits_now != 64)
        return;
    PUT(s, 0, 0x0f, 0x20, 0xd8);
    PUT(s, WIDE, 0x0f, 0xba, 0xf8, SEQUENCE_PICK(s, bits));
    PUT(s, 0, 0x0f, 0x22, 0xd8);
    PUT(s, 0, 0x0f, 0x20, 0xdb); /* MOV RBX, CR3 */
}

static void cr_other_part(struct sequence *s)
{
    switch (sequence_below(s, 4)) {
    case 0:
        PUT(s, 0, 0x0f, 0x06); /* CLTS */
        break;
    case 1:
        PUT(s, 0, 0x0f, 0x01, 0xe0); /* SMSW AX */
        PUT(s, 0, 0x0f, 0x01, 0xf0); /* LMSW AX */
        break;
    case 2:
        sequence_load(s, RAX, (uint32_t)sequence_below(s, 4) * 4);
        if (s->bits_now == 64)
            PUT(s, 0, 0x44, 0x0f, 0x22, 0xc0); /* MOV CR8, RAX */
        break;
    default:
        PUT(s, 0, 0x0f, 0x20, 0xd0); /* MOV EAX, CR2 */
    }
}

static void in_part(struct sequence *s)
{
    static const struct {
        uint16_t port; /* 0: PM1 control */
        uint8_t bytes;
    } from[] = {{0x80, 1}, {0x3ff, 1}, {0x61, 1}, {0x60, 2}, {0, 2}, {0, 1}, {0, 2}, {0, 4}};
    unsigned n = (unsigned)sequence_below(s, LENGTH_OF(from));
    uint16_t port = from[n].port != 0 ? from[n].port : machine_pm1a_control();

    if (from[n].port == 0x60 || from[n].port == 0x61)
        s->ignored |= EAX_IGNORED;
    sequence_load(s, RDX, port);
    PUT(s, from[n].bytes == 2 ? NARROW : OPERAND_32, from[n].bytes == 1 ? 0xec : 0xed);
    if (s->ignored & EAX_IGNORED)
        sequence_load(s, RAX, 0);
    s->exits = true;
}

static void out_part(struct sequence *s)
{
    static const uint16_t ports[] = {0x80, 0x3ff, 0, 0};
    uint16_t port = SEQUENCE_PICK(s, ports);
    bool pm1 = port == 0;

    sequence_load(s, RDX, pm1 ? machine_pm1a_control() : port);
    sequence_load(s, RAX, (uint32_t)sequence_below(s, 2));
    PUT(s, pm1 ? NARROW : 0, pm1 ? 0xef : 0xee);
    s->exits = true;
}

static void string_io_part(struct sequence *s)
{
    bool out = sequence_chance(s, 50);

    sequence_load(s, RDX, out ? 0x80 : 0x3ff);
    sequence_load(s, out ? RSI : RDI, sequence_hot(s));
    sequence_load(s, RCX, 1 + (uint32_t)sequence_below(s, 5));
    PUT(s, REP | ADDRESS_32, out ? 0x6e : 0x6c);
}

static void xsetbv_part(struct sequence *s)
{
    static const uint8_t values[] = {1, 3, 7, 2, 5};

    PUT(s, OPERAND_32, 0x31, 0xc9);
    PUT(s, OPERAND_32, 0x31, 0xd2);
    sequence_load(s, RAX, SEQUENCE_PICK(s, values));
    PUT(s, 0, 0x0f, 0x01, 0xd1);
    PUT(s, 0, 0x0f, 0x01, 0xd0); /* XGETBV */
    s->exits = true;
}

/* A number that is none is the error that it gets. Natively a NOP of the same length. */
static void vmcall_part(struct sequence *s)
{
    bool served = s->cpl == 0 || s->variant & SEQUENCE_USER_CALLS;
    uint32_t number = served ? (uint32_t)HYPERCALL_E_NUMBER : (uint32_t)HYPERCALL_E_PERMISSION;

    if (s->bits_now != 64)
        return;
    PUT(s, WIDE, 0xc7, 0xc0, (uint8_t)number, 0xff, 0xff, 0xff);
    if (fuzz_guest)
        PUT(s, 0, 0x0f, 0x01, 0xc1);
    else
        PUT(s, 0, 0x0f, 0x1f, 0x00);
    s->exits = true;
}

static void rdmsr_part(struct sequence *s)
{
    static const uint32_t indices[] = {IA32_EFER,
                                       IA32_APIC_BASE,
                                       IA32_PAT,
                                       0xc0000082,
                                       IA32_PERF_GLOBAL_STATUS,
                                       IA32_DEBUGCTL,
                                       0x2fff,
                                       0x802,
                                       0x80f,
                                       0x9ff,
                                       0xc0010000,
                                       IA32_PMC0 + 2,
                                       IA32_SYSENTER_EIP};

    sequence_load(s, RCX, SEQUENCE_PICK(s, indices));
    PUT(s, 0, 0x0f, 0x32);
    s->exits = true;
}

static void wrmsr_part(struct sequence *s)
{
    static const struct {
        uint32_t index, value;
    } of[] = {{SEQUENCE_TSC_AUX, 5}, {0x2fff, 0},
              {IA32_PMC0 + 2, 77},   {IA32_PERF_GLOBAL_STATUS_RESET, 4},
              {IA32_EFER, ~0u},      {IA32_PAT, 0x00070406}};
    unsigned n = (unsigned)sequence_below(s, LENGTH_OF(of));

    sequence_load(s, RCX, of[n].index);
    sequence_load(s, RAX, of[n].value);
    sequence_load(s, RDX, of[n].index == IA32_PAT ? 0x00070406 : 0);
    PUT(s, 0, 0x0f, 0x30);
    s->exits = true;
}

static void debugctl_part(struct sequence *s)
{
    uint32_t value = (uint32_t)sequence_below(s, 2) * (uint32_t)DEBUGCTL_LBR;

    if (s->variant & SEQUENCE_BTF)
        value |= (uint32_t)sequence_below(s, 2) * (uint32_t)DEBUGCTL_BTF;
    sequence_load(s, RCX, IA32_DEBUGCTL);
    sequence_load(s, RAX, value);
    PUT(s, OPERAND_32, 0x31, 0xd2);
    PUT(s, 0, 0x0f, 0x30);
    s->exits = true;
}

/* SDM Vol. 2, "RDSSPD/RDSSPQ", "INCSSPD/INCSSPQ", "SETSSBSY"; a CALL that returns. */
static void cet_part(struct sequence *s)
{
    if (!s->cet)
        return;
    switch (sequence_below(s, 5)) {
    case 0:
        sequence_load(s, RAX, 0);
        PUT(s, REP, 0x0f, 0x1e, 0xc8);
        return;
    case 1:
        sequence_load(s, RAX, 1);
        PUT(s, REP, 0x0f, 0xae, 0xe8);
        return;
    case 2:
        if (s->bits_now == 64) {
            PUT(s, FAULT_ENDS, 0xe8, 2, 0, 0, 0);
            PUT(s, 0, 0xeb, 1);
            PUT(s, FAULT_ENDS, 0xc3);
            return;
        }
        break;
    default:
        break;
    }
    sequence_load(s, RCX, IA32_S_CET);
    sequence_load(s, RAX, sequence_chance(s, 75));
    PUT(s, OPERAND_32, 0x31, 0xd2);
    PUT(s, 0, 0x0f, 0x30);
    PUT(s, REP, 0x0f, 0x01, 0xe8);
    s->exits = true;
}

static void time_part(struct sequence *s)
{
    if (sequence_chance(s, 50)) {
        PUT(s, 0, 0x0f, 0x31); /* RDTSC */
        sequence_load(s, RAX, 0);
        sequence_load(s, RDX, 0);
        s->ignored |= EAX_IGNORED | EDX_IGNORED;
    } else {
        sequence_load(s, RCX, 0);
        PUT(s, 0, 0x0f, 0x33); /* RDPMC */
    }
    s->exits = true;
}

static void cache_part(struct sequence *s)
{
    if (sequence_chance(s, 50))
        PUT(s, 0, 0x0f, 0x09); /* WBINVD */
    else
        PUT(s, 0, 0x0f, 0x08); /* INVD */
    s->exits = true;
}

/* MONITOR of the stack, INVLPG, which ends that in the emulator (a store whose translation it knows
 * does not), MWAIT: it does not wait. */
static void mwait_part(struct sequence *s)
{
    if (!(s->variant & SEQUENCE_MWAIT) || s->bits_now != 64)
        return;
    if (sequence_chance(s, 40))
        PUT(s, 0, 0x0f, 0x09);
    PUT(s, WIDE, 0x8d, 0x44, 0x24, 0xc0); /* LEA RAX, [RSP - 64] */
    PUT(s, OPERAND_32, 0x31, 0xc9);
    PUT(s, OPERAND_32, 0x31, 0xd2);
    PUT(s, 0, 0x0f, 0x01, 0xc8);
    PUT(s, 0, 0x0f, 0x01, 0x38); /* INVLPG [RAX] */
    PUT(s, 0, 0x0f, 0x01, 0xc9);
    s->exits = true;
}

/* Sends this processor what the command says, in the mode that its APIC is in. */
static void send(struct sequence *s, uint32_t command)
{
    sequence_load(s, RAX, command);
    if (apic_x2()) {
        sequence_load(s, RCX, X2APIC_MSR + APIC_ICR / 16);
        sequence_load(s, RDX, apic_id());
        PUT(s, 0, 0x0f, 0x30);
    } else {
        sequence_load(s, RBX, APIC_PAGE + APIC_ICR);
        PUT(s, 0, 0x89, 0x03); /* MOV [RBX], EAX */
    }
    s->exits = true;
}

static uint32_t some_vector(struct sequence *s)
{
    return SEQUENCE_IPI_FIRST +
           (uint32_t)sequence_below(s, SEQUENCE_IPI_LAST - SEQUENCE_IPI_FIRST + 1);
}

static void ipi_part(struct sequence *s)
{
    if (s->bits_now == 64)
        send(s, some_vector(s) | ICR_ASSERT | ICR_SELF);
}

static void nmi_part(struct sequence *s)
{
    if (s->bits_now == 64)
        send(s, ICR_NMI | ICR_ASSERT);
}

/* With an interrupt waiting, so that it ends: see sequence_event(). */
static void halt_part(struct sequence *s)
{
    if (s->bits_now != 64 || s->cpl != 0)
        return;
    PUT(s, 0, 0xfa);
    PUT(s, OPERAND_32, 0x31, 0xc0);
    PUT(s, 0, 0x44, 0x0f, 0x22, 0xc0); /* MOV CR8, RAX */
    send(s, some_vector(s) | ICR_ASSERT | ICR_SELF);
    PUT(s, 0, 0xfb);
    PUT(s, HALTS, 0xf4);
}

/* Registers of the APIC's page, and the same places where it is in x2APIC mode: nobody's then. */
static void apic_part(struct sequence *s)
{
    static const uint16_t offsets[] = {0x20, APIC_TPR, 0x30, 0xf0, 0x350};

    if (s->bits_now != 64)
        return;
    if (apic_x2() && sequence_chance(s, 50)) {
        sequence_load(s, RBX, APIC_PAGE + APIC_ICR);
        sequence_load(s, RAX, some_vector(s) | ICR_ASSERT | ICR_SELF);
        PUT(s, 0, 0x89, 0x03);
    } else {
        sequence_load(s, RBX, APIC_PAGE + SEQUENCE_PICK(s, offsets));
        PUT(s, 0, 0x8b, 0x03); /* MOV EAX, [RBX] */
    }
    s->exits = true;
}

/* Outside x2APIC mode these MSRs fault. */
static void x2apic_part(struct sequence *s)
{
    static const uint32_t indices[] = {0x802, 0x808, 0x80f, 0x835};

    if (sequence_chance(s, 50)) {
        sequence_load(s, RCX, SEQUENCE_PICK(s, indices));
        PUT(s, 0, 0x0f, 0x32);
    } else if (!apic_x2()) {
        sequence_load(s, RCX, X2APIC_MSR + APIC_ICR / 16);
        sequence_load(s, RAX, some_vector(s) | ICR_ASSERT | ICR_SELF);
        PUT(s, OPERAND_32, 0x31, 0xd2);
        PUT(s, 0, 0x0f, 0x30);
    }
    s->exits = true;
}

const struct sequence_kind sequence_exits[] = {
    {"cpuid", cpuid_part, 40},       {"cr0", cr0_part, 40},
    {"cr4", cr4_part, 45},           {"cr3", cr3_part, 60},
    {"cr", cr_other_part, 15},       {"in", in_part, 45},
    {"out", out_part, 25},           {"string-io", string_io_part, 15},
    {"xsetbv", xsetbv_part, 20},     {"vmcall", vmcall_part, 25},
    {"rdmsr", rdmsr_part, 30},       {"wrmsr", wrmsr_part, 25},
    {"debugctl", debugctl_part, 15}, {"cr3-fault", cr3_fault_part, 15},
    {"cet", cet_part, 25},           {"time", time_part, 15},
    {"cache", cache_part, 15},       {"mwait", mwait_part, 15},
    {"ipi", ipi_part, 25},           {"nmi", nmi_part, 25},
    {"halt", halt_part, 10},         {"apic", apic_part, 25},
    {"x2apic", x2apic_part, 12},     {NULL, NULL, 0},
};
