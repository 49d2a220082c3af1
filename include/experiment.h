/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An experiment is a folder experiments/NAME/ whose hypervisor/ is linked into pmuvisor-lab.efi. It
 * names the core, and the core names none: what it adds is one struct below, which a row of the
 * section "experiments" points to. The start walks over them; no exit does. In pmuvisor.efi there
 * is none. docs/adding.md walks through one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"

struct cpu;
struct refusal;
struct vmx_capability;

/* A member that is 0 adds nothing. */
struct experiment {
    const char *name; /* of its folder */

    /* Options, made by EXPERIMENT_OPTION(). They lie in storage of its own. */
    const struct option_row *options;
    uint32_t option_count;

    /* A policy: its name, a value of the option policy=, and the enum policy that it is based on.
     * Where it was chosen, rows() runs on each processor before any setup(): it puts rows over
     * cpu->handlers, and what is to exit into cpu->msr_bitmap. testbed/image.sh looks for
     * `.policy = {"NAME"` in the folder's experiment.c. */
    struct option_choice policy;
    void (*rows)(struct cpu *cpu);

    /* On each processor, before its VMCS: whether it can do what the options ask for. False: *r
     * says what is missing. */
    bool (*possible)(const struct vmx_capability *c, struct refusal *r);
    bool (*hides_monitor)(void); /* MONITOR and MWAIT are not shown: idle is HLT */
    bool (*needs_tsc)(void);     /* cpu->tsc_khz is looked for */

    /* Pages of the pool that setup() takes at most on all processors; the guest's own map has
     * `tables` of them. */
    uint64_t (*pages)(const struct boot_info *bi, uint64_t tables);
    /* Memory of the pool that the guest may read, in bytes: whole pages, on top of pages(). Where
     * it is comes once, before the guest's map is built. */
    uint64_t (*readable)(const struct boot_info *bi);
    void (*reserve)(struct range readable);

    /* State of its own, one of each processor, zeroed: *place is set to where it begins, counted
     * from struct cpu. */
    uint64_t *place;
    uint32_t state_bytes;

    /* On each processor, after the core's own set-up and with its VMCS current: puts rows over
     * cpu->handlers, writes its part of the VMCS, offers its hypercalls (hypercall_offer()). */
    void (*setup)(struct cpu *cpu, const struct vmx_capability *c);
};

/* What a program that is linked without one has no symbols for: an empty list. */
extern const struct experiment *const __start_experiments[] __attribute__((weak));
extern const struct experiment *const __stop_experiments[] __attribute__((weak));
/* `e` is declared here. NOLINTBEGIN(bugprone-macro-parentheses) */
#define FOR_EACH_EXPERIMENT(e)                                                                     \
    for (const struct experiment *const *at = __start_experiments, *e;                             \
         at < __stop_experiments && (e = *at, true); at++)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Links it. */
#define EXPERIMENT(of)                                                                             \
    static const struct experiment *const linked_##of                                              \
        __attribute__((used, section("experiments"))) = &(of)

/* A row's values, in this table and in boot/option_table.h. */
#define VALUES(...) __VA_ARGS__
#define NAME(name, value) {name, value}
/* Expands EXPERIMENT_OPTIONS, the table of an experiment's options.h, to rows; boot/option_table.h
 * says what a row has. `field` is a variable: a bool or an integer. */
#define EXPERIMENT_OPTION(key, kind, field, initial, wanted, values, help)                         \
    {#key, kind, 0, sizeof(field), wanted, {values}, &(field), initial},

/* ---- vmx/start/experiments.c: all that are linked, together ---- */

/* Sets their `place`s. Gives the bytes of struct cpu with what follows it. */
uint64_t experiments_place(void);
uint64_t experiments_pages(const struct boot_info *bi, uint64_t tables);
uint64_t experiments_readable(const struct boot_info *bi);
/* Takes the memory that the guest may read from the pool, and tells each of its part. */
struct range experiments_reserve(const struct boot_info *bi);
bool experiments_need_tsc(void);
void experiments_setup(struct cpu *cpu, const struct vmx_capability *c);

/* ---- vmx/exit/hypercall.c ---- */

/* From here on this processor's guest has the hypercall of this number: 19 to 30 are free for
 * experiments. Results and errors as in hypercall.h. */
void hypercall_offer(struct cpu *cpu, uint32_t number, int64_t (*call)(struct cpu *cpu));
