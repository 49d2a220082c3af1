/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ledger: what the hypervisor does, counted from outside. One per processor, in total and for
 * each region that the guest has open; written as one JSON file at the end. Knows no Bochs. The
 * schema is in README.md, "Ledger".
 */
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "events.h"
#include "exit_paths.h"

/* What is counted in root mode and outside it. All but LISTED and APIC_ACCESS are instructions,
 * which count when they retire. README.md, "Ledger", has the meaning of each. */
enum Executed {
    EXECUTED_VMREAD,
    EXECUTED_VMWRITE,
    EXECUTED_LISTED, /* MSRs that VM exit or entry stores or loads by a list of the VMCS */
    EXECUTED_RDMSR_PMU,
    EXECUTED_RDMSR_APIC,
    EXECUTED_RDMSR_OTHER,
    EXECUTED_WRMSR_PMU,
    EXECUTED_WRMSR_APIC,
    EXECUTED_WRMSR_OTHER,
    EXECUTED_SPEC_CTRL,
    EXECUTED_L1D_FLUSH,
    EXECUTED_VERW,
    EXECUTED_RDPMC,
    EXECUTED_IRET,
    EXECUTED_CR3_LOAD,
    EXECUTED_CPUID,
    EXECUTED_APIC_ACCESS,
    EXECUTED_KINDS
};

/* The kind of an RDMSR or a WRMSR. */
Executed executed_rdmsr(uint32_t index);
Executed executed_wrmsr(uint32_t index, uint64_t value);

/* The first index of Tally::executed. */
constexpr unsigned WORLD_NONROOT = 0; /* or no VMX */
constexpr unsigned WORLD_ROOT = 1;
constexpr unsigned WORLDS = 2;

/* Where an NMI or a PMI arrives. */
enum Arrival {
    ARRIVAL_ROOT,    /* through the IDT in root mode */
    ARRIVAL_NONROOT, /* through the IDT in non-root mode, or without VMX */
    ARRIVAL_EXIT,    /* it made a VM exit */
    ARRIVALS
};

/* What comes of a record for the debug store. */
enum Stored {
    STORED_PEBS,         /* stored outside root mode */
    STORED_PEBS_ROOT,    /* in root mode (knob `pebs_late`) */
    STORED_PEBS_FULL,    /* no room */
    STORED_PEBS_DROPPED, /* late, and its counter is enabled no more */
    STORED_BTS,          /* instructions whose branches were stored */
    STORED_PT,           /* bytes of traces of Intel PT */
    STORED_PT_ROOT,      /* in root mode */
    STORED_PT_LOST,      /* to a page that the model had not translated: its own fault */
    STORED_KINDS
};

struct Spread {
    uint64_t samples = 0;
    uint64_t sum = 0;
    uint64_t min = 0;
    uint64_t max = 0;

    void add(uint64_t value);
    void merge(const Spread &other);
};

struct ExitTally {
    uint64_t count = 0;
    Spread root_instructions;
    Spread vmcs_accesses;
    std::map<uint32_t, uint64_t> msrs; /* exits by the MSR that the guest wanted */
    std::map<Path, uint64_t> paths;    /* and by their ways to the entry (knob `exit_paths`) */
};

struct Tally {
    std::map<unsigned, ExitTally> exits;
    uint64_t executed[WORLDS][EXECUTED_KINDS] = {};
    uint64_t nmi[ARRIVALS] = {};
    uint64_t nmi_injected = 0;
    uint64_t pmi[ARRIVALS] = {};
    uint64_t pmi_raised = 0;
    uint64_t pmi_masked = 0;
    uint64_t stored[STORED_KINDS] = {};
    uint64_t instructions[MODE_COUNT] = {};
    uint64_t begins = 0; /* regions only */
    bool open = false;   /* regions only */

    void merge(const Tally &other);
};

class Ledger {
public:
    explicit Ledger(const uint64_t *retired) : retired_(retired) {}

    void vm_exit(unsigned reason);
    /* The exit that has just begun is RDMSR's or WRMSR's. */
    void exit_of_msr(uint32_t index);
    /* VMLAUNCH or VMRESUME is in flight and counts as the last instruction of the exit. */
    void vm_entry();
    /* Before it: the way of the exit; empty: not known. */
    void exit_path(const Path &path);
    /* An instruction of this kind is in flight. It counts when a later call finds it retired. */
    void executes(Executed kind, unsigned world);
    /* The instruction in flight faults or exits. */
    void stops();
    void apic_access(unsigned world);
    void listed(uint64_t msrs);
    void nmi(Arrival where);
    void nmi_injected();
    void pmi_raised(bool masked);
    void pmi(Arrival where);
    void stored(Stored what);
    /* The marker itself, in flight in `mode`, belongs to no region. */
    void region_begin(uint32_t id, unsigned mode);
    void region_end(uint32_t id);
    /* The same for a marker that another processor executes: it is counted there. */
    void region_begin_here(uint32_t id);
    void region_end_here(uint32_t id);

    /* Between a VM exit and the next entry, and the exit's reason. */
    bool in_exit() const { return in_exit_; }
    unsigned exit_reason() const { return exit_reason_; }
    /* VMREAD and VMWRITE in root mode so far. */
    uint64_t vmcs_accesses();

    uint64_t stray_ends() const { return stray_ends_; }
    /* The whole run's tally, and the regions'. */
    Tally total();
    std::map<uint32_t, Tally> regions();

private:
    struct Region {
        Tally tally;
        unsigned depth = 0;
        uint64_t begin[MODE_COUNT] = {};
    };
    template<typename Update> void update(Update apply);
    void count(Executed kind, unsigned world, uint64_t times);
    /* Counts what has retired since it was in flight. */
    void settle();
    uint64_t root_instructions() const;
    uint64_t instructions() const;
    Tally closed(const Region &region) const;

    const uint64_t *retired_;
    Tally total_;
    std::map<uint32_t, Region> regions_;
    std::vector<uint32_t> open_;
    /* In flight since so many instructions had retired, or retired and not yet counted. */
    Executed pending_ = EXECUTED_KINDS;
    unsigned pending_world_ = WORLD_NONROOT;
    uint64_t pending_at_ = 0;
    bool in_exit_ = false;
    unsigned exit_reason_ = 0;
    uint64_t exit_at_ = 0;
    uint64_t exit_accesses_ = 0;
    uint64_t accesses_ = 0;
    uint64_t stray_ends_ = 0;
};

/* Writes the sum of the processors' ledgers to the file that TB_LEDGER names, if it names one. */
void ledger_write(const char *end);
