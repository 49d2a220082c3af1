/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the parts of the fuzzer of sequences know of each other. Sequence number i of a seed is the
 * same whatever ran before it. It runs in the world of the other fuzzer (fuzz.h), but under
 * handlers that note each event, mend what it broke, and go on.
 */
#pragma once

#include <stddef.h>

#include "fuzz.h"
#include "kernel.h"

/* ---- what is drawn besides the seed: what a row of options lets the guest have ---- */

enum sequence_variant {
    SEQUENCE_MWAIT = 1,      /* MONITOR and MWAIT are not hidden */
    SEQUENCE_USER_CALLS = 2, /* VMCALL is served outside CPL 0 */
    SEQUENCE_BTF = 4,        /* the machine has single steps by branch */
    SEQUENCE_CET = 8,        /* and shadow stacks */
    SEQUENCE_STEPPED = 16,   /* an experiment may step an access */
};

/* ---- the world: sequence_world.c ---- */

#define SEQUENCE_DATA_PAGES 6
#define SEQUENCE_DATA (WINDOW + 0x400000u)      /* linear; of CPL 0 */
#define SEQUENCE_DATA_USER (WINDOW + 0x410000u) /* the same pages */
#define SEQUENCE_TABLE (WINDOW + 0x420000u)     /* the page table that maps all of these */
#define SEQUENCE_SHADOW                                                                            \
    (WINDOW + 0x421000u) /* shadow stacks of CPL 0, a token at the end of each */
#define SEQUENCE_SHADOW_USER (WINDOW + 0x422000u)
#define SEQUENCE_CODE 0x100u /* in a code page, behind what LANDING is for */
#define SEQUENCE_CODE_END 0xe00u
#define SEQUENCE_POOL 0xe00u /* far pointers; behind them again INT FUZZ_DONE */
#define SEQUENCE_POOL_END 0xe80u
#define SEQUENCE_STACK 0x3020u /* RSP in the data: the first pushes cross a page's end */
#define SEQUENCE_IPI_FIRST 0x80
#define SEQUENCE_IPI_LAST 0xef

struct sequence;
void sequence_world_setup(void);
void sequence_world_end(void);
/* The data, the page table and what else a sequence begins with. */
void sequence_world_reset(const struct sequence *s);
/* Everything that the sequence may have left in memory, as a hash; `whole`: all bytes of it. */
uint64_t sequence_memory_hash(uint64_t hash, bool whole);
/* Where its parts lie: physical address and bytes. */
enum sequence_range { RANGE_DATA, RANGE_TABLE, RANGE_STACKS, SEQUENCE_RANGES };
void sequence_range(enum sequence_range n, uint64_t *first, uint64_t *bytes);
extern const char sequence_stubs[];

/* ---- one sequence ---- */

#define SEQUENCE_TSC_AUX 0xc0000103u /* SDM Vol. 4: IA32_TSC_AUX */
#define CR3_PWT BIT(3)               /* SDM Vol. 3, "Control Registers" */
#define CR3_PCD BIT(4)
#define SEQUENCE_PARTS 12
#define SEQUENCE_STARTS 192
#define SEQUENCE_EVENTS 64

/* Bits of `kept`: part n of the sequence, and of what is set up before it. */
enum {
    KEEP_TF = 32,
    KEEP_BREAKPOINT, /* and three more */
    KEEP_IF = KEEP_BREAKPOINT + 4,
    KEEP_PMI,
    KEEP_TABLE,
    KEEP_HANDLER,
    KEEP_PENDING,
    KEEP_CET,
};

enum sequence_action { HANDLER_PLAIN, HANDLER_CPUID, HANDLER_CR3, HANDLER_ACTIONS };

struct sequence {
    uint64_t random; /* of the part that is made now */
    uint64_t number, kept, variant;
    unsigned cpl, bits, bits_now;
    uint32_t data;                             /* linear */
    uint32_t hot[2];                           /* where accesses are */
    uint64_t table_flags[SEQUENCE_DATA_PAGES]; /* of the pages' entries */
    uint64_t dr[4], dr7, rflags;
    enum sequence_action action;
    unsigned pending;    /* an IPI that waits from the start on; 0: none */
    unsigned pmi;        /* branches until the PMI; 0: none */
    unsigned pmi_vector; /* 0: an NMI */
    bool cet;            /* shadow stacks: of CPL 3 and of events, or as its parts switch them on */
    uint32_t ignored;    /* a bit for each register that may hold time */
    /* Not compared: how many instructions or branches retired. One that exits and is not executed
     * again does not retire; nor does INT n, where a VM entry delivers what it began. */
    bool exits, stacks_watched;
    unsigned length, count;
    uint8_t code[SEQUENCE_CODE_END];
    const char *part[SEQUENCE_PARTS]; /* names; NULL: left out */
    uint16_t start[SEQUENCE_STARTS];
    bool ends[SEQUENCE_STARTS]; /* a fault there is the end */
    bool halts[SEQUENCE_STARTS];
    uint8_t far[SEQUENCE_POOL_END - SEQUENCE_POOL]; /* far pointers */
    unsigned far_bytes;
};

/* Shadow stacks as they are after the sequence. */
uint64_t sequence_shadow_hash(const struct sequence *s, uint64_t hash);
/* Off again. */
void sequence_shadow_end(const struct sequence *s);

/* What an event was. */
struct sequence_event {
    uint64_t vector, error, rip, cs, rflags, rsp, registers, dr6, dr7, cr0, cr2, cr4;
};
extern struct sequence_event sequence_events[SEQUENCE_EVENTS];
extern volatile unsigned sequence_event_count;
bool sequence_event(struct trap_frame *frame);
/* Runs it; the events are above. */
void sequence_execute(const struct sequence *s);
/* sequence.c: the sequence's counters on and off; and of a PMI, in NMI context. */
void sequence_count(bool on);
void sequence_pmi_acknowledge(void);

/* ---- what an experiment does around sequences; natively too, where it must give the same ---- */

struct sequence_around {
    /* Around the sequences of one SEQUENCE_STEP, of which `number` is the first. They give what the
     * guest sees of it. */
    uint64_t (*begin)(uint64_t seed, uint64_t number);
    uint64_t (*end)(void);
    /* After each sequence, with control registers as it left them; NULL: nothing. */
    uint64_t (*look)(void);
    /* Pushes exit in this step: its sequences have no PMI, and do not count instructions. */
    bool (*watches_stacks)(uint64_t seed, uint64_t number);
    /* For several processors: begins something that lasts until an INIT; tries the same, and ends
     * it, with what came of it. */
    void (*begin_lasting)(void);
    int64_t (*try_lasting)(void);
};
extern const struct sequence_around *const __start_sequence_around[];
extern const struct sequence_around *const __stop_sequence_around[];
#define FOR_EACH_AROUND(a)                                                                         \
    for (const struct sequence_around *const *at = __start_sequence_around, *a;                    \
         at < __stop_sequence_around && (a = *at, true); at++)
#define SEQUENCE_AROUND(of)                                                                        \
    static const struct sequence_around *const linked_##of                                         \
        __attribute__((used, section("sequence_around"))) = &(of)

/* ---- making one: sequence_make.c, sequence_exit.c, sequence_access.c, sequence_flow.c ---- */

#define SEQUENCE_STEP 32 /* so many have one hash, and what is around them */
void sequence_make(struct sequence *s, uint64_t seed, uint64_t number, uint64_t variant,
                   uint64_t kept);
uint64_t sequence_random(struct sequence *s);
uint64_t sequence_below(struct sequence *s, uint64_t below);
#define SEQUENCE_PICK(s, array) ((array)[sequence_below(s, LENGTH_OF(array))])
bool sequence_chance(struct sequence *s, unsigned percent);

enum {
    OPERAND_32 = 1, /* 16-bit code needs a prefix for it */
    ADDRESS_32 = 2,
    WIDE = 4, /* 64 bits in 64-bit code */
    REP = 8,
    REPNE = 16,
    LOCK = 32,
    NARROW = 64, /* 16 bits */
    FAULT_ENDS = 128,
    HALTS = 256,
};
/* Appends an instruction without its prefixes. */
void sequence_put(struct sequence *s, unsigned flags, unsigned bytes, const uint8_t *code);
#define PUT(s, flags, ...)                                                                         \
    sequence_put(s, flags, sizeof((const uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__})
/* MOV of a 32-bit constant to a register. */
void sequence_load(struct sequence *s, unsigned reg, uint32_t value);
/* The linear address of the code's next instruction, or with `bits` 16 its offset. */
uint32_t sequence_here(const struct sequence *s, unsigned bits);
/* Where the code begins, as `bits` of it want it. */
uint64_t sequence_first(const struct sequence *s);
/* One of the addresses where accesses are. */
uint32_t sequence_hot(struct sequence *s);
uint16_t sequence_stack_selector(const struct sequence *s);
uint16_t sequence_code_selector(const struct sequence *s, unsigned bits);

typedef void sequence_part(struct sequence *s);
struct sequence_kind {
    const char *name;
    sequence_part *make;
    unsigned weight;
};
/* The last one's name is NULL. */
extern const struct sequence_kind sequence_exits[], sequence_accesses[], sequence_flows[];
