/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the fuzzer's parts know of each other. Operation number i of a seed is the same whatever ran
 * before it: its random numbers come from the seed and i alone. What it gave is a few words, which
 * are hashed, so that a run under PMUvisor can be compared with a native one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel.h"

/* ---- fuzz_run.asm, fuzz_cpu.c: one execution ---- */

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };

/* In the order in which fuzz_run.asm knows it; from rip on what IRET takes. */
struct fuzz_state {
    uint64_t gpr[16]; /* RSP: the word below */
    uint64_t rip, cs, rflags, rsp, ss;
    uint64_t vector, error; /* fuzz_out only */
    /* As they were at the end. Of fuzz_in, for shadow stacks: `cr4` 0, or with CET; `cr0` 1: CPL 0
     * has a stack that its IRET frees. */
    uint64_t cr0, cr2, cr3, cr4;
};
extern struct fuzz_state fuzz_in, fuzz_out;
extern struct {
    uint64_t cr0, cr3, cr4;
} fuzz_base;                    /* what every operation begins with */
extern uint64_t fuzz_late;      /* NMIs and #DBs that came when the operation was over */
extern const char fuzz_stubs[]; /* of all vectors, STUB_BYTES apart */
void fuzz_execute(void);

#define FUZZ_DONE 0x40 /* the vector by which an operation ends that raised nothing */

/* The window: pages of the fuzzer, mapped for CPL 0 to 2 and for CPL 3. Below 4 GiB, for code of
 * 32 bits; the lowest 16 bits of its address are 0, for code of 16 bits. */
#define WINDOW 0xf0000000u
#define WINDOW_CODE WINDOW
#define WINDOW_CODE_USER (WINDOW + 0x1000u)
#define WINDOW_DATA (WINDOW + 0x2000u) /* two pages */
#define WINDOW_DATA_USER (WINDOW + 0x4000u)
#define WINDOW_READ_ONLY (WINDOW + 0x6000u)
#define WINDOW_NOTHING (WINDOW + 0x8000u) /* never mapped */
#define WINDOW_HIDDEN (WINDOW + 0x9000u)  /* the hypervisor's memory; natively a page of ours */
#define WINDOW_TARGET (WINDOW + 0x10000u) /* what an operation maps */
#define WINDOW_TARGET_TABLE (WINDOW + 0x200000u) /* the same through a page table of its own */
#define DATA_MIDDLE 0x800u
#define DATA_BYTES 0x2000u
#define LANDING 0x80u /* in both code pages: from here on nothing but INT FUZZ_DONE */
#define NOT_CANONICAL 0x800000000000ULL

/* Selectors of the fuzzer's GDT; the first two and the TSS are where fuzz_run.asm and trap.asm have
 * them. RPL 0. */
enum {
    FUZZ_CODE_0 = 0x10,
    FUZZ_DATA_0 = 0x18,
    FUZZ_TSS = 0x20,
    FUZZ_CODE_1 = 0x30,
    FUZZ_DATA_1 = 0x38,
    FUZZ_CODE_2 = 0x40,
    FUZZ_DATA_2 = 0x48,
    FUZZ_CODE_3 = 0x50, /* SYSRET wants the data below the code: see fuzz_setup() */
    FUZZ_DATA_3 = 0x58,
    FUZZ_CODE32_0 = 0x60,
    FUZZ_CODE32_3 = 0x68,
    FUZZ_CODE16_0 = 0x70,
    FUZZ_CODE16_3 = 0x78,
    FUZZ_CODE_CONFORMING = 0x80,
    FUZZ_CODE_ABSENT = 0x88,
    FUZZ_DATA_ABSENT = 0x90,
    FUZZ_CODE_L_AND_D = 0x98,
    FUZZ_CALL_GATE = 0xa0,
    FUZZ_SHORT_TSS = 0xb0,
    FUZZ_LDT = 0xc0,
    FUZZ_READ_ONLY = 0xd0,
    FUZZ_GDT_BYTES = 0xd8,
};

void fuzz_setup(void);
void fuzz_end(void);
/* After an operation that loaded TR or a descriptor: GDT and TR as they were. */
void fuzz_restore_descriptors(void);
uint64_t fuzz_physical(const void *of_ours);
extern uint8_t page_tables[]; /* start.asm */
/* The page directories of the first 4 GiB. */
uint64_t *fuzz_directory(void);
extern struct table_register fuzz_own_gdt, fuzz_own_idt;
extern uint8_t fuzz_code_page[];
/* Two pages of the operation's data, and one of plain memory, full of INT FUZZ_DONE. */
extern uint8_t fuzz_data[DATA_BYTES], fuzz_plain[4096];
/* Page table entries of WINDOW_TARGET and of the table behind WINDOW_TARGET_TABLE. */
void fuzz_map(uint64_t entry);
void fuzz_map_table(uint64_t directory_entry, uint64_t entry);
/* A random page that is hidden from this guest, never the one whose write resets the machine;
 * natively one of ours. */
uint64_t fuzz_hidden_page(uint64_t random);
/* For operations on interrupt delivery: the IDT and the TSS's stacks, until the operation ends. */
struct gate *fuzz_spoil_idt(unsigned vector, uint16_t limit);
void fuzz_spoil_ist(unsigned number, uint64_t top);
void fuzz_mend(unsigned vector);
#define IST_ORDINARY 1
#define IST_OF_NMI 2
#define IST_OF_DB 3
#define IST_OF_DF 4
#define ISTS 7
#define IST_SPOIL 5

/* ---- fuzz.c: operations ---- */

/* The kinds of operations, X(KIND, name, function, weight): the weights are of a thousand. */
#define FUZZ_OPERATIONS(X)                                                                         \
    X(CPUID, "cpuid", cpuid, 110)                                                                  \
    X(RDMSR, "rdmsr", rdmsr, 90)                                                                   \
    X(WRMSR, "wrmsr", wrmsr, 110)                                                                  \
    X(RDPMC, "rdpmc", rdpmc, 25)                                                                   \
    X(IN, "in", in_port, 45)                                                                       \
    X(OUT, "out", out_port, 45)                                                                    \
    X(STRING, "string", string, 30)                                                                \
    X(HYPERCALL, "hypercall", hypercall, 70)                                                       \
    X(CR0, "cr0", cr0, 30)                                                                         \
    X(CR3, "cr3", cr3, 15)                                                                         \
    X(CR4, "cr4", cr4, 40)                                                                         \
    X(CR8, "cr8", cr8, 10)                                                                         \
    X(CR_OTHER, "cr-other", cr_other, 10)                                                          \
    X(DR, "dr", dr, 25)                                                                            \
    X(XSETBV, "xsetbv", xsetbv, 25)                                                                \
    X(XSTATE, "xstate", xstate, 20)                                                                \
    X(VMX, "vmx", vmx, 60)                                                                         \
    X(SYSTEM, "system", system, 40)                                                                \
    X(GROUP7, "group7", group7, 20)                                                                \
    X(MWAIT, "mwait", mwait, 10)                                                                   \
    X(NMI, "nmi", nmi, 15)                                                                         \
    X(IPI, "ipi", ipi, 15)                                                                         \
    X(PAGE, "page", page, 60)                                                                      \
    X(SELECTOR, "selector", selector, 15)                                                          \
    X(FAR, "far", far, 15)                                                                         \
    X(IRET, "iret", iret, 15)                                                                      \
    X(INT, "int", int_n, 10)                                                                       \
    X(DELIVERY, "delivery", delivery, 25)                                                          \
    X(LEGACY, "legacy", legacy, 40)                                                                \
    X(RECORD, "record", record, 15)

#define FUZZ_KIND(kind, name, function, weight) FUZZ_##kind,
enum fuzz_kind { FUZZ_OPERATIONS(FUZZ_KIND) FUZZ_KINDS };
#undef FUZZ_KIND

enum { FUZZ_VALUES = 4 };

struct fuzz_op {
    enum fuzz_kind kind;
    uint64_t random;  /* the generator's state */
    uint64_t subject; /* leaf, MSR, port, hypercall, physical page ...: of a difference */
    uint64_t detail;  /* subleaf, value, ... */
    uint64_t before;  /* what the register held */
    unsigned cpl;
    bool code_32;      /* compatibility mode */
    bool hidden;       /* touches memory that is the hypervisor's */
    bool hidden_table; /* has its page table there */
    unsigned length;
    uint8_t code[64];
    uint64_t start, flags, others_before; /* RIP, RFLAGS and others that it began with */
    /* What it gave. */
    uint64_t others; /* RSP, RBP to R15, mixed */
    uint64_t vector, error, rip, rflags, cr2;
    uint64_t value[FUZZ_VALUES];
};

uint64_t fuzz_random(struct fuzz_op *op);
/* 0 .. below - 1 */
static inline uint64_t fuzz_below(struct fuzz_op *op, uint64_t below)
{
    return (fuzz_random(op) >> 16) % below;
}
#define FUZZ_PICK(op, array) ((array)[fuzz_below(op, LENGTH_OF(array))])
static inline bool fuzz_chance(struct fuzz_op *op, unsigned percent)
{
    return fuzz_below(op, 100) < percent;
}
/* A number that is often small, a single bit, near a power of two, or all ones. */
uint64_t fuzz_number(struct fuzz_op *op);
/* A random privilege level and, where the code allows it, code size. */
void fuzz_level(struct fuzz_op *op, bool may_be_32);
/* Loads registers of the next execution: everything random but what is needed to run. */
void fuzz_begin(struct fuzz_op *op);
/* Appends code. */
void fuzz_code(struct fuzz_op *op, unsigned bytes, const void *code);
#define CODE(op, ...)                                                                              \
    fuzz_code(op, sizeof((const uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__})
/* Executes the code. True when it came to its end. */
bool fuzz_go(struct fuzz_op *op);
/* Keeps what the execution gave; registers RAX to RBX are values where `outputs` is set. */
void fuzz_keep(struct fuzz_op *op, bool outputs);
/* Linear address of the operation's data for its privilege level. */
uint64_t fuzz_data_address(const struct fuzz_op *op);
extern bool fuzz_guest;        /* under PMUvisor */
extern bool fuzz_apic_trapped; /* the APIC's page, for this guest */
extern bool fuzz_shown;        /* each execution is printed before it runs */
void fuzz_show(const struct fuzz_op *op);

#define FUZZ_DECLARE(kind, name, function, weight) void fuzz_##function(struct fuzz_op *op);
FUZZ_OPERATIONS(FUZZ_DECLARE)
#undef FUZZ_DECLARE

/* Whether this MSR has the processor write records or packets, or says where. */
bool fuzz_writes_by_itself(uint32_t index);

/* ---- both fuzzers' hash: one word more ---- */

#define HASH_BASIS 0xcbf29ce484222325ULL
#define HASH_PRIME 0x100000001b3ULL

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * HASH_PRIME;
    return hash ^ hash >> 32;
}

/* ---- fuzz_differ.c: documented differences ---- */

/* Natively: makes of what the processor gave what the guest has to get instead. */
void fuzz_differ(struct fuzz_op *op);
/* Prints each row, with how often it changed something. */
void fuzz_differences(void);
