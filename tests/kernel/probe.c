/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Patterns for the probes' registers, and the comparison afterwards.
 */
#include "probe.h"

#include <string.h>

#include "kernel.h"

#define RFLAGS_ID BIT(21)
#define FLAGS_TRIED                                                                                \
    (RFLAGS_CF | RFLAGS_PF | RFLAGS_AF | RFLAGS_ZF | RFLAGS_SF | RFLAGS_DF | RFLAGS_OF |           \
     RFLAGS_AC | RFLAGS_ID)
#define CANONICAL_POSITIVE BITS(46, 0)
#define SPREAD 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio: neighbours share no pattern */

static const struct {
    const char *name;
    unsigned reason;
    bool faults;
} kinds[PROBE_KINDS] = {
    [PROBE_CPUID] = {"cpuid", EXIT_REASON_CPUID, false},
    [PROBE_VMCALL] = {"vmcall", EXIT_REASON_VMCALL, false},
    [PROBE_WRMSR] = {"wrmsr", EXIT_REASON_WRMSR, false},
    [PROBE_WRMSR_FAULT] = {"wrmsr-fault", EXIT_REASON_WRMSR, true},
    [PROBE_EPT] = {"ept", EXIT_REASON_EPT_VIOLATION, true},
    [PROBE_CPUID_STI] = {"cpuid-sti", EXIT_REASON_CPUID, false},
    [PROBE_CPUID_MOVSS] = {"cpuid-movss", EXIT_REASON_CPUID, false},
};

static const char *const register_names[PROBE_REGISTERS] = {
    "RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI",    "R8",
    "R9",  "R10", "R11", "R12", "R13", "R14", "R15", "RFLAGS",
};

/* What RAX to RBX hold after the instruction, where that is not what they held before. */
static uint64_t learnt[PROBE_KINDS][PROBE_RBX + 1];
static uint64_t hidden;

static void fill(enum probe_kind kind, unsigned pattern)
{
    for (unsigned i = 0; i < PROBE_REGISTERS; i++)
        probe_in[i] = SPREAD * (pattern * PROBE_REGISTERS + i + 1);
    probe_in[PROBE_RSP] &= CANONICAL_POSITIVE;
    probe_in[PROBE_RFLAGS] = RFLAGS_FIXED | (pattern % 2 != 0 ? FLAGS_TRIED : 0);
    switch (kind) {
    case PROBE_CPUID:
    case PROBE_CPUID_STI:
    case PROBE_CPUID_MOVSS:
        probe_in[PROBE_RAX] = 0;
        probe_in[PROBE_RCX] = 0;
        break;
    case PROBE_VMCALL:
        probe_in[PROBE_RAX] = NO_HYPERCALL;
        break;
    case PROBE_WRMSR: {
        uint64_t now = rdmsr(IA32_APIC_BASE);
        probe_in[PROBE_RCX] = IA32_APIC_BASE;
        probe_in[PROBE_RAX] = (uint32_t)now;
        probe_in[PROBE_RDX] = now >> 32;
        break;
    }
    case PROBE_WRMSR_FAULT:
        probe_in[PROBE_RCX] = MSR_NOBODYS;
        break;
    case PROBE_EPT:
        probe_in[PROBE_RBX] = hidden;
        break;
    default:
        break;
    }
}

static uint64_t wanted(enum probe_kind kind, unsigned reg)
{
    if (kinds[kind].reason == EXIT_REASON_CPUID && reg <= PROBE_RBX)
        return learnt[kind][reg];
    if (kind == PROBE_CPUID_STI && reg == PROBE_RFLAGS)
        return probe_in[reg] | RFLAGS_IF;
    if (kind == PROBE_VMCALL && reg == PROBE_RAX)
        return learnt[kind][reg];
    return probe_in[reg];
}

static bool as_wanted(enum probe_kind kind)
{
    for (unsigned i = 0; i < PROBE_REGISTERS; i++) {
        if (probe_out[i] == wanted(kind, i))
            continue;
        tap_note("%s: %s is 0x%lx, wanted 0x%lx", kinds[kind].name, register_names[i], probe_out[i],
                 wanted(kind, i));
        return false;
    }
    return true;
}

static bool run(enum probe_kind kind, unsigned pattern)
{
    uint64_t faults = fault_count;

    fill(kind, pattern);
    probe_run[kind]();
    if (fault_count - faults == kinds[kind].faults &&
        (!kinds[kind].faults || fault_vector == VECTOR_GP))
        return true;
    tap_note("%s: %lu faults, the last with vector %lu, wanted %d with vector %d", kinds[kind].name,
             fault_count - faults, fault_vector, kinds[kind].faults, VECTOR_GP);
    return false;
}

bool probe_learn(enum probe_kind kind, const char **why)
{
    if (!under_pmuvisor()) {
        *why = "there is no PMUvisor to exit to";
        return false;
    }
    if (kind == PROBE_EPT && hidden == 0) {
        hidden = hidden_address();
        if (hidden == 0) {
            *why = "no reserved memory is hidden from this guest";
            return false;
        }
    }
    if (!run(kind, 0)) {
        *why = "the instruction does not do what it should";
        return false;
    }
    memcpy(learnt[kind], probe_out, sizeof(learnt[kind]));
    return true;
}

bool probe_once(enum probe_kind kind, unsigned pattern)
{
    return run(kind, pattern) && as_wanted(kind);
}

bool probe_once_counted(uint64_t global_ctrl, unsigned pattern)
{
    fill(PROBE_CPUID, pattern);
    probe_run_counted(global_ctrl);
    return as_wanted(PROBE_CPUID);
}

uint64_t probe_nmi_rip(enum probe_kind kind)
{
    /* The #GP is delivered first, at the entry: the NMI finds its handler's first instruction. */
    if (kinds[kind].faults)
        return (uintptr_t)exception_stubs + VECTOR_GP * STUB_BYTES;
    return (uintptr_t)probe_after[kind];
}

unsigned probe_exit_reason(enum probe_kind kind) { return kinds[kind].reason; }

enum probe_kind probe_named(const char *name)
{
    for (unsigned kind = 0; kind < PROBE_KINDS; kind++)
        if (text_equal(name, kinds[kind].name))
            return kind;
    return PROBE_KINDS;
}
