/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All that the library keeps for one emulated processor, and the planning of when to look at it
 * next. The parts in here know nothing of each other; this file and its users join them.
 */
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "arch_lbr.h"
#include "bts.h"
#include "events.h"
#include "exit_paths.h"
#include "inject.h"
#include "knobs.h"
#include "ledger.h"
#include "lbr.h"
#include "lines.h"
#include "microarch.h"
#include "pebs.h"
#include "platform.h"
#include "pmu.h"

/* Bits of Processor::touched. */
constexpr unsigned TOUCHED_LOAD = 1;
constexpr unsigned TOUCHED_STORE = 2;
constexpr unsigned TOUCHED_SLOW = 4; /* a load of more than the latency that is asked for */

class bxInstruction_c;
class PtMachine;

/* A PEBS record that is made and not stored yet. */
struct PebsRecord {
    uint64_t counters = 0;
    std::vector<uint64_t> words;
    uint64_t due = 0; /* the count of instructions in all modes */
};

/* What the instruction at hand did, as far as its record wants to know. */
struct Precise {
    bool branched = false;
    uint64_t branch_from = 0;
    PebsAccess load, store;
    /* The processor itself writes to the debug store: accesses of no instruction. */
    bool storing = false;
    std::deque<PebsRecord> late;
};

struct Processor {
    Processor(unsigned number, const uint64_t *retired, const uint64_t *iterations);
    ~Processor();

    const unsigned id;
    /* With those that are its own: all that makes it another processor than the next. */
    Knobs own;
    EventCounts events;
    Pmu pmu;
    Lbr lbr;
    ArchLbr arch_lbr;
    /* Those of the two that it has. */
    BranchRecords &records();
    Pebs pebs;
    Bts bts;
    Precise precise;
    /* Null: it has no Intel PT. */
    std::unique_ptr<PtMachine> pt;
    BranchPredictor predictor;
    Cache cache;
    Platform platform;
    Ledger ledger;
    Injector injector;
    LineLog lines;
    PathLog paths;
    /* The plan: all cycles of its mode at the next look, and how often events may happen before. */
    uint64_t look_at = PMU_NEVER;
    uint64_t occasions = 0;
    /* Whatever the plan says. */
    bool look_soon = false;
    uint64_t debugctl = 0;
    /* RFLAGS.TF was set as the instruction at hand began, and it has branched since. */
    bool stepping = false;
    bool step_branched = false;
    /* A VM entry injects an event, whose delivery leaves DEBUGCTL alone. */
    bool injecting = false;
    /* The MSRs that are mere storage, by index. */
    std::map<uint32_t, uint64_t> storage;

    /* A PMI is on its way as an NMI, or as this vector. */
    bool pmi_as_nmi = false;
    unsigned pmi_vector = 0;

    /* VMexit() of Bochs has begun with this reason and has not loaded the host state yet. */
    bool exiting = false;
    uint32_t exit_reason = 0;
    /* It is of no instruction: an access to the debug store. */
    bool async_exit = false;

    /* A VMCS field that is spoiled until a VM entry has failed, and what it held; 0 is none. */
    uint32_t spoiled_field = 0;
    uint64_t spoiled_value = 0;

    /* What the instruction at hand has done to memory, and whether some counter wants to know. */
    unsigned touched = 0;
    bool counts_accesses = false;
    /* Where its loads found their data, and the floating-point arithmetic that it is: how often
     * that counts, and its class. */
    LoadSource load_source = LOAD_L1;
    bool loaded = false;
    unsigned fp_counts = 0;
    FpClass fp_class = FP_SCALAR_DOUBLE;
    bool counts_fp = false;
    /* An event is being delivered, whose own accesses are of no instruction. */
    bool event_memory = false;
    /* An event is being delivered: the branch record wants its handler's address. */
    bool event_branch = false;
    uint64_t event_from = 0;
    unsigned event_vector = 0;
    bool event_user = false;
    bool event_injected = false;
};

/* The counts of what has retired are up to date until the next instruction is complete. */
Processor &processor(unsigned cpu);

/* Processors made so far: none, where Bochs stops over its configuration. */
unsigned processor_count();

/* Makes the processor's state. To be called once for each, in order. */
void processor_create(unsigned cpu);

/* It is in VMX root operation. */
bool processor_in_root(const Processor &p);

/* Takes over the knobs that may still change where a server forks. */
void processor_take_knobs(Processor &p);

/* Branches are recorded, in either kind of records. */
bool processor_records(const Processor &p);
/* Branches are stored by BTS. */
bool processor_stores_branches(const Processor &p);

/* Chooses the instruction after which to look again, and the hooks that are needed until then. */
void processor_plan(Processor &p);

/* `i` has just retired and the plan says to look. */
void processor_look(Processor &p, bxInstruction_c *i);

/* Sets the number of retired instructions at which tb_on_deadline() runs. */
void processor_set_deadline(Processor &p);

/* Looks when the instruction at hand is complete. */
void processor_look_soon(Processor &p);
/* A look is due. */
bool processor_is_due(const Processor &p);

/* An event has happened that is not of every instruction: looks when this one is complete, where
 * the plan has no room for it. */
void processor_happens(Processor &p);

/* The instruction at hand does this to memory (TOUCHED_*), while some counter watches memory. */
void processor_touches(Processor &p, unsigned how);

/* The instruction at hand does none of what it was seen to do: it is interrupted. */
void processor_untouched(Processor &p);

/* An NMI of the host's, as a remote processor sends it: first the request, then the NMI. */
void processor_host_nmi(Processor &p);

/* A PMI of something else than a counter, right after this instruction or as the skid says. */
void processor_raise_pmi(Processor &p, uint64_t status);

/* Sends the scheduled NMIs that are due in root mode, or outside it. */
void processor_inject(Processor &p, bool root);
