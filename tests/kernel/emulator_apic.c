/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every write of IA32_APIC_BASE between the states of the local APIC, what the registers
 * hold after a disable, and what faults in x2APIC mode. SDM Vol. 3, "x2APIC State Transitions",
 * "Enabling or Disabling the Local APIC", "Local APIC State After Power-Up or Reset", "Reserved Bit
 * Checking", "Error Handling in x2APIC Mode".
 */
#include "emulator.h"

#define STATE_SHIFT 10
#define STATE_MASK (UINT64_C(3) << STATE_SHIFT)
#define RESERVED_BIT BIT(9)
#define ABOVE_PHYSICAL BIT(51)
#define MOVED (UINT64_C(0xfed) << 20)
#define CPUID_1_EDX_APIC BIT(9)
#define X2APIC_LDR 0x80d
#define X2APIC_LVT_CMCI 0x82f
#define XAPIC_LVT_CMCI 0x2f0
#define ESR 0x280
#define ESR_ILLEGAL_REGISTER BIT(7)
#define ICR_SELF_FIXED 0x44000u
#define SVR_ENABLED 0x1ffu

/* Bits 11 (EN) and 10 (EXTD). */
enum state { DISABLED, INVALID, XAPIC_MODE, X2APIC_MODE, STATES };

static const char *const names[STATES] = {"disabled", "invalid", "xAPIC", "x2APIC"};
static const bool legal[STATES][STATES] = {
    [DISABLED] = {[DISABLED] = true, [XAPIC_MODE] = true},
    [XAPIC_MODE] = {[DISABLED] = true, [XAPIC_MODE] = true, [X2APIC_MODE] = true},
    [X2APIC_MODE] = {[DISABLED] = true, [X2APIC_MODE] = true},
};

/* Registers, what is written to spoil them, and what they are after power-up. */
static const struct {
    const char *name;
    uint32_t offset, spoilt, reset;
} registers[] = {
    {"TPR", 0x080, 0x20, 0},
    {"LDR", 0x0d0, 0x02000000, 0},
    {"DFR", 0x0e0, 0x0fffffff, 0xffffffff},
    {"SVR", 0x0f0, SVR_ENABLED, 0xff},
    {"ICR, high half", 0x310, 0x01000000, 0},
    {"LVT timer", 0x320, 0x200e0, 0x10000},
    {"LVT thermal", 0x330, 0x100e1, 0x10000},
    {"LVT performance", 0x340, 0x4e2, 0x10000},
    {"LVT LINT0", 0x350, 0x700, 0x10000},
    {"LVT LINT1", 0x360, 0x400, 0x10000},
    {"LVT error", 0x370, 0xe3, 0x10000},
    {"divide configuration", 0x3e0, 0xb, 0},
    {"initial count", 0x380, 0x7fffffff, 0},
};
/* Registers that `spoil()` does not write: ISR, TMR, IRR, ESR, ICR, the timer's current count. */
static const uint32_t others[] = {0x100, 0x120, 0x180, 0x1a0, 0x200, 0x220, ESR, 0x300, 0x390};

static volatile uint32_t *xapic(uint32_t offset)
{
    return (volatile uint32_t *)(uintptr_t)(APIC_PAGE + offset);
}

static enum state state_now(void)
{
    return (enum state)((rdmsr(IA32_APIC_BASE) & STATE_MASK) >> STATE_SHIFT);
}

static uint64_t base_in(enum state state)
{
    return (rdmsr(IA32_APIC_BASE) & ~STATE_MASK) | (uint64_t)state << STATE_SHIFT;
}

/* Goes there only by transitions that the SDM allows. */
static void go_to(enum state state)
{
    wrmsr(IA32_APIC_BASE, base_in(DISABLED));
    if (state != DISABLED)
        wrmsr(IA32_APIC_BASE, base_in(XAPIC_MODE));
    if (state == X2APIC_MODE)
        wrmsr(IA32_APIC_BASE, base_in(X2APIC_MODE));
    check_about("the way to ", names[state]);
    check_equal(": state", state_now(), state);
}

static void check_transitions(void)
{
    static const char *const ways[STATES] = {
        " to disabled: ", " to invalid: ", " to xAPIC: ", " to x2APIC: "};

    for (unsigned from = 0; from < STATES; from++) {
        if (from == INVALID)
            continue;
        for (unsigned to = 0; to < STATES; to++) {
            go_to(from);
            check_about(names[from], ways[to]);
            check_equal("faults", wrmsr_faults(IA32_APIC_BASE, base_in(to)), !legal[from][to]);
            check_equal("state after it", state_now(), legal[from][to] ? to : from);
        }
        go_to(from);
        check_about(names[from], ": ");
        check_that("a reserved bit faults",
                   wrmsr_faults(IA32_APIC_BASE, base_in(from) | RESERVED_BIT));
        check_that("an address too high faults",
                   wrmsr_faults(IA32_APIC_BASE, base_in(from) | ABOVE_PHYSICAL));
        check_equal("CPUID shows the APIC", (cpuid(1, 0).edx & CPUID_1_EDX_APIC) != 0,
                    from != DISABLED);
        check_equal("x2APIC registers fault", rdmsr_faults(X2APIC_MSR + 2), from != X2APIC_MODE);
    }
}

static void spoil(void)
{
    for (unsigned n = 0; n < LENGTH_OF(registers); n++)
        *xapic(registers[n].offset) = registers[n].spoilt;
    /* An interrupt stays in the IRR because IF is 0. ESR does not show the error yet. */
    *xapic(0x300) = ICR_SELF_FIXED | PMI_VECTOR;
    (void)*xapic(XAPIC_LVT_CMCI);
}

static void check_reset_state(uint32_t id, uint32_t version)
{
    check_equal("ID", *xapic(0x20), id);
    check_equal("version", *xapic(0x30), version);
    for (unsigned n = 0; n < LENGTH_OF(registers); n++)
        check_equal(registers[n].name, *xapic(registers[n].offset), registers[n].reset);
    for (unsigned n = 0; n < LENGTH_OF(others); n++)
        check_equal("a register that is read only", *xapic(others[n]), 0);
    *xapic(ESR) = 0;
    check_equal("no error is kept", *xapic(ESR), 0);
    pmi_interrupts = 0;
    *xapic(0xf0) = SVR_ENABLED;
    open_interrupts();
    check_equal("no interrupt is kept", pmi_interrupts, 0);
}

static void check_registers(void)
{
    uint32_t id, version;

    go_to(XAPIC_MODE);
    id = *xapic(0x20);
    version = *xapic(0x30);
    spoil();
    check_about("", "");
    check_equal("held in the IRR", *xapic(0x220), BIT(PMI_VECTOR - 0x40));
    go_to(XAPIC_MODE);
    check_about("from xAPIC mode to disabled and back: ", "");
    check_reset_state(id, version);

    spoil();
    wrmsr(IA32_APIC_BASE, base_in(X2APIC_MODE));
    check_equal("x2APIC ID", rdmsr(X2APIC_MSR + 2), id >> 24);
    check_equal("x2APIC LDR", rdmsr(X2APIC_LDR), BIT(id >> 24));
    check_equal("a register goes on in x2APIC mode", rdmsr(X2APIC_MSR + 8), 0x20);
    go_to(XAPIC_MODE);
    check_about("from x2APIC mode to disabled to xAPIC mode: ", "");
    check_reset_state(id, version);

    /* Move the APIC while it is disabled. */
    wrmsr(IA32_APIC_BASE, base_in(DISABLED));
    wrmsr(IA32_APIC_BASE, (base_in(XAPIC_MODE) & 0xfff) | MOVED);
    check_equal("at another address", *(volatile uint32_t *)(uintptr_t)(MOVED + 0x30), version);
    wrmsr(IA32_APIC_BASE, (base_in(XAPIC_MODE) & 0xfff) | APIC_PAGE);
    check_equal("and back", *xapic(0x30), version);
}

static void check_faults(void)
{
    go_to(XAPIC_MODE);
    check_about("in xAPIC mode: ", "");
    *xapic(0xf0) = SVR_ENABLED;
    *xapic(ESR) = 0;
    (void)*xapic(XAPIC_LVT_CMCI);
    *xapic(ESR) = 0;
    check_equal("LVT CMCI is an illegal register", *xapic(ESR), ESR_ILLEGAL_REGISTER);

    go_to(X2APIC_MODE);
    check_about("in x2APIC mode: ", "");
    wrmsr(X2APIC_MSR + 0xf, SVR_ENABLED);
    check_that("LVT CMCI faults when read", rdmsr_faults(X2APIC_LVT_CMCI));
    check_that("LVT CMCI faults when written", wrmsr_faults(X2APIC_LVT_CMCI, LVT_MASKED));
    pmi_interrupts = 0;
    for (unsigned bit = 8; bit < 64; bit++)
        check_that("a reserved bit of SELF IPI faults",
                   wrmsr_faults(X2APIC_SELF_IPI, BIT(bit) | PMI_VECTOR));
    check_that("SELF IPI cannot be read", rdmsr_faults(X2APIC_SELF_IPI));
    check_equal("nothing was sent", rdmsr(X2APIC_MSR + 0x22), 0);
    check_that("SELF IPI takes a vector", !wrmsr_faults(X2APIC_SELF_IPI, PMI_VECTOR));
    check_equal("it is sent", rdmsr(X2APIC_MSR + 0x22), BIT(PMI_VECTOR - 0x40));
    go_to(XAPIC_MODE);
    *xapic(0xf0) = SVR_ENABLED;
}

void emulator_apic(void)
{
    check_transitions();
    check_registers();
    check_faults();
}
