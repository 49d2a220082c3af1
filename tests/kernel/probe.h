/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A probe executes one instruction that exits, with chosen values in every register and flag, and
 * keeps what is in them afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum probe_kind {
    PROBE_CPUID,
    PROBE_VMCALL,
    PROBE_WRMSR,       /* exits, and is done */
    PROBE_WRMSR_FAULT, /* exits, faults in root mode, and so in the guest */
    PROBE_EPT,         /* a read of memory that is not the guest's: #GP */
    PROBE_CPUID_STI,   /* in the shadow of STI */
    PROBE_CPUID_MOVSS, /* in the shadow of MOV SS */
    PROBE_KINDS
};

/* In the order in which probe.asm knows them. */
enum probe_register {
    PROBE_RAX,
    PROBE_RCX,
    PROBE_RDX,
    PROBE_RBX,
    PROBE_RSP,
    PROBE_RBP,
    PROBE_RSI,
    PROBE_RDI,
    PROBE_R8,
    PROBE_R9,
    PROBE_R10,
    PROBE_R11,
    PROBE_R12,
    PROBE_R13,
    PROBE_R14,
    PROBE_R15,
    PROBE_RFLAGS,
    PROBE_REGISTERS
};

/* What the next probe begins with, and what the last one ended with. */
extern uint64_t probe_in[PROBE_REGISTERS], probe_out[PROBE_REGISTERS];

/* probe.asm, one per kind: the instruction, and the address after it (where a fault goes on). */
extern void (*const probe_run[PROBE_KINDS])(void);
extern const char *const probe_after[PROBE_KINDS];
/* The CPUID probe with GLOBAL_CTRL set to `global_ctrl` before it, PMI_BEFORE instructions between
 * the two, and PMI_BEHIND behind. */
void probe_run_counted(uint64_t global_ctrl);
extern const char probe_counted_after[];
#define PMI_BEFORE 200
#define PMI_BEHIND 256

/* probe.c */

/* Learns what the instruction gives when nothing disturbs it; false where it cannot be used here:
 * *why says so. */
bool probe_learn(enum probe_kind kind, const char **why);
/* Runs it once, with the pattern of that number in the registers. False: a register or flag is not
 * as learnt, or as it was before; one line says which. */
bool probe_once(enum probe_kind kind, unsigned pattern);
/* The same for the counted probe; PROBE_CPUID has to be learnt. */
bool probe_once_counted(uint64_t global_ctrl, unsigned pattern);
/* Where an NMI that came during the exit has to say that it came from. */
uint64_t probe_nmi_rip(enum probe_kind kind);
/* The exit reason, SDM Vol. 3, "VMX Basic Exit Reasons". */
unsigned probe_exit_reason(enum probe_kind kind);
/* The kind of that name; PROBE_KINDS: there is none. */
enum probe_kind probe_named(const char *name);
