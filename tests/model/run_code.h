/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The hypervisor's C functions as coroutines, which the model runs from one event to the next.
 */
#pragma once

#include "events.h"
#include "nmi/host_work.h"
#include "vmx/cpu.h"

#define SAVED_STACK 436 /* bytes of a coroutine's stack in use where it stops, at most */

/* All that C code keeps between two events, besides the processor's struct: part of the model's
 * state. */
struct coroutine {
    uint32_t used; /* 0: does not run */
    uint8_t stack[SAVED_STACK];
};
extern struct coroutine coroutines[CO_COUNT];
struct machine {
    uint32_t interruptibility, primary, pin, injection; /* fields of the VMCS */
    uint32_t reason;
    int32_t returned; /* what the VMCALL gave */
    bool line;        /* the platform's NMI, until it is acknowledged */
    bool pmi_raised;  /* what the PMU and LVTPC show; set before each event */
    /* The model's variables, here from the start of an event to its end. */
    bool lvtpc_masked, overflow;
    /* The PMU as far as host work uses it: whose it is, counter 0 with its enable bit and overflow,
     * the counter frozen by a PMI, and whether a PMI freezes it, and how. */
    bool hosts, counting, host_overflow, frozen, freezes, legacy;
    int32_t counter;
    /* For the model's guards, after each event: NMI exiting is off, NMI-window exiting is on, a
     * request is being sent, what NOTE_* say, the NMI handler ends by IRET, and starts the counter
     * before. */
    bool passthrough, window, sending, forwarded, fresh, owed, unblocks, restarts;
};
extern struct machine machine;
extern struct cpu the_cpu;
extern struct host_work the_work; /* stay.c */

/* Once: options and masks. */
void model_start(bool passthrough, bool lazy, bool platform, bool legacy);
/* An exit from a guest in this state: root mode's stay begins. Then the same for an entry. */
void model_exit(uint32_t reason, bool blocking_by_nmi, bool blocking_by_mov_ss);
void model_entered(void);
bool model_blocks(void); /* NMIs, at the entry */
/* A branch retires: whether the counter overflows by it. */
bool model_branch(void);
/* What a PMI does to the counter when it comes. */
void model_freeze(void);
/* A coroutine begins; it does nothing yet. */
void model_begin(int who);
/* Runs it to its next event, an E_* of events.h. */
int model_run(int who);
