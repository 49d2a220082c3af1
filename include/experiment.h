/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An experiment is a folder experiments/NAME/ whose hypervisor/ is linked into pmuvisor-lab.efi. An
 * experiment may name the core, but the core never names an experiment. An experiment registers one
 * struct experiment; a row of the section "experiments" points to it. The code of the start reads
 * these rows. Exits do not. In pmuvisor.efi, the section has no rows. docs/adding.md explains one
 * experiment step by step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"

struct cpu;
struct refusal;
struct vmx_capability;

/* Everything that an experiment registers. A member that is 0 registers nothing. */
struct experiment {
    const char *name; /* the folder's name */

    /* Options, made by EXPERIMENT_OPTION(). Their values are in the experiment's own storage. */
    const struct option_row *options;
    uint32_t option_count;

    /* A policy. Its name is a value of the option policy=. Its value is the enum policy that the
     * policy is based on. If the user chose this policy, rows() runs on each processor before any
     * setup(). rows() replaces rows of cpu->handlers, and in cpu->msr_bitmap it sets the bits of
     * accesses that exit. testbed/image.sh looks for `.policy = {"NAME"` in the folder's
     * experiment.c. */
    struct option_choice policy;
    void (*rows)(struct cpu *cpu);

    /* Runs on each processor before its VMCS is set up. Returns whether the processor can do what
     * the options ask for. If not, *r says what is missing. */
    bool (*possible)(const struct vmx_capability *c, struct refusal *r);
    /* Returns whether CPUID hides MONITOR and MWAIT, so that the guest idles by HLT. */
    bool (*hides_monitor)(void);
    /* Returns whether the start determines cpu->tsc_khz. */
    bool (*needs_tsc)(void);

    /* Returns the largest number of pool pages that setup() takes, on all processors together.
     * `tables` is the number of pages that the guest's own map takes. */
    uint64_t (*pages)(const struct boot_info *bi, uint64_t tables);
    /* Returns how many bytes of the pool the guest may read: whole pages, in addition to pages().
     * reserve() gets the place of these bytes, and is called once, before the guest's map is
     * built. */
    uint64_t (*readable)(const struct boot_info *bi);
    void (*reserve)(struct range readable);

    /* The experiment's own state for each processor, zeroed. The start sets *place to the state's
     * offset from struct cpu. */
    uint64_t *place;
    uint32_t state_bytes;

    /* Runs on each processor after the core's own setup, with the VMCS current. setup() replaces
     * rows of cpu->handlers, writes the experiment's part of the VMCS, and offers hypercalls
     * (hypercall_offer()). */
    void (*setup)(struct cpu *cpu, const struct vmx_capability *c);
};

/* Weak symbols: with no experiment linked, the list is empty. */
extern const struct experiment *const __start_experiments[] __attribute__((weak));
extern const struct experiment *const __stop_experiments[] __attribute__((weak));
/* Loops over the linked experiments; declares `e`. NOLINTBEGIN(bugprone-macro-parentheses) */
#define FOR_EACH_EXPERIMENT(e)                                                                     \
    for (const struct experiment *const *at = __start_experiments, *e;                             \
         at < __stop_experiments && (e = *at, true); at++)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Adds `of`, a struct experiment, to the list of linked experiments. */
#define EXPERIMENT(of)                                                                             \
    static const struct experiment *const linked_##of                                              \
        __attribute__((used, section("experiments"))) = &(of)

/* For the column `values` of a row, in an experiment's table and in boot/option_table.h. */
#define VALUES(...) __VA_ARGS__
#define NAME(name, value) {name, value}
/* Expands EXPERIMENT_OPTIONS, the table in an experiment's options.h, to rows. boot/option_table.h
 * explains the columns. `field` is a variable: a bool or an integer. */
#define EXPERIMENT_OPTION(key, kind, field, initial, wanted, values, help)                         \
    {#key, kind, 0, sizeof(field), wanted, {values}, &(field), initial},

/* ---- vmx/start/experiments.c: the linked experiments, all together ---- */

/* Sets each *place. Returns the size in bytes of struct cpu together with the experiments' state
 * that follows it. */
uint64_t experiments_place_state(void);
uint64_t experiments_pages_needed(const struct boot_info *bi, uint64_t tables);
uint64_t experiments_guest_readable_bytes(const struct boot_info *bi);
/* Takes from the pool the memory that the guest may read, and gives each experiment its part. */
struct range experiments_reserve(const struct boot_info *bi);
bool experiments_need_tsc(void);
void experiments_setup(struct cpu *cpu, const struct vmx_capability *c);

/* ---- vmx/exit/hypercall.c ---- */

/* Offers the hypercall `number` to the guest on this processor from now on. 19 to 30 are free for
 * experiments. Results and errors are as in hypercall.h. */
void hypercall_offer(struct cpu *cpu, uint32_t number, int64_t (*call)(struct cpu *cpu));
