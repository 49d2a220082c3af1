// SPDX-License-Identifier: BSD-2-Clause
//
// Joins the parts of one processor: when the next look is due, and what is done then.
#include "bochs.h"
#include "cpu.h"
#include "memory/memory-bochs.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "apic_pmi.h"
#include "hot.h"
#include "knobs.h"
#include "msr_index.h"
#include "part.h"
#include "precise.h"
#include "processor.h"
#include "pt_machine.h"

namespace {

std::vector<std::unique_ptr<Processor>> processors;
Package package;

constexpr unsigned BRANCH_EVENTS = 1u << EVENT_BRANCHES | 1u << EVENT_BRANCH_MISSES |
                                   1u << EVENT_UOPS_ISSUED | 1u << EVENT_FETCH_BUBBLES |
                                   1u << EVENT_REDIRECTS;
constexpr unsigned ACCESS_EVENTS = 1u << EVENT_LOADS | 1u << EVENT_STORES |
                                   1u << EVENT_LOAD_LATENCY | 1u << EVENT_LOAD_SOURCES;
constexpr unsigned CACHE_EVENTS = 1u << EVENT_L1_MISSES | 1u << EVENT_OFFCORE;

void as_planned(Processor &p)
{
    p.look_soon = false;
    processor_set_deadline(p);
}

// The look that is planned is due.
bool is_planned(const Processor &p) { return p.events.cycles(hot_of(p.id).mode) >= p.look_at; }

// Only now it is known that the instruction has retired.
void count_retired(Processor &p)
{
    unsigned mode = hot_of(p.id).mode;

    p.events.loads[mode] += (p.touched & TOUCHED_LOAD) != 0;
    p.events.stores[mode] += (p.touched & TOUCHED_STORE) != 0;
    p.events.slow_loads[mode] += (p.touched & TOUCHED_SLOW) != 0;
    p.events.load_sources[p.load_source][mode] += p.loaded;
    p.events.fp[p.fp_class][mode] += p.fp_counts;
    processor_untouched(p);
}

}  // namespace

Processor::Processor(unsigned number, const uint64_t *retired, const uint64_t *iterations)
    : id(number), pmu(events, knobs().pmu_shape), pebs(PEBS_OFF, knobs().pmu_shape),
      platform(package), ledger(retired)
{
    events.retired = retired;
    events.iterations = iterations;
    processor_take_knobs(*this);
}

Processor::~Processor() = default;

BranchRecords &Processor::records()
{
    if (own.arch_lbr)
        return arch_lbr;
    return lbr;
}

void processor_take_knobs(Processor &p)
{
    p.own = knobs_of(knobs(), p.id);
    p.injector = Injector(knobs().nmi_schedules);
    p.pebs = Pebs(p.own.pebs, p.own.pmu_shape);
    p.pmu.set_shape(p.own.pmu_shape);
    if (p.own.arch_lbr)
        p.arch_lbr.set_most(p.own.arch_lbr);
    p.pmu.set_capabilities(p.pebs.capabilities());
    p.pmu.set_skid(knobs().pmi_skid);
    p.pmu.sweep_skid(knobs().pmi_skids);
    if (knobs().pmi_status != PMI_STATUS_OWN)
        p.pmu.set_overflow_status(knobs().pmi_status == PMI_STATUS_NONE ? 0
                                                                        : bit(knobs().pmi_status));
}

bool processor_in_root(const Processor &p)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    return cpu->in_vmx && !cpu->in_vmx_guest;
}

unsigned processor_count() { return static_cast<unsigned>(processors.size()); }

Processor &processor(unsigned cpu)
{
    hot_count(hot_of(cpu));
    return *processors[cpu];
}

void processor_create(unsigned cpu)
{
    const struct tb_hot &hot = hot_of(cpu);

    static_assert(sizeof(Bit64u) == sizeof(uint64_t), "Bochs' 64-bit type");
    static_assert(TB_MODE_USER == MODE_USER_BIT && TB_WORLD_ROOT == MODE_ROOT_BIT, "mode bits");
    processors.push_back(
        std::make_unique<Processor>(cpu, reinterpret_cast<const uint64_t *>(hot.by_mode),
                                    reinterpret_cast<const uint64_t *>(hot.iterations)));
}

bool processor_records(const Processor &p)
{
    return (p.own.arch_lbr ? p.arch_lbr.enabled() : (p.debugctl & DEBUGCTL_LBR) != 0) &&
           !p.pmu.lbr_frozen();
}

bool processor_stores_branches(const Processor &p)
{
    return bts_on(p.debugctl) && p.pebs.format() != PEBS_OFF;
}

void processor_plan(Processor &p)
{
    struct tb_hot &hot = hot_of(p.id);
    uint64_t now = p.events.instructions();
    bool root = hot.mode & MODE_ROOT_BIT;
    uint64_t budget = std::min({p.pmu.budget(hot.mode, now),
                                p.injector.budget(root, p.events.instructions_in(root)),
                                precise_budget(p)});

    p.look_at = budget == PMU_NEVER ? PMU_NEVER : p.events.cycles(hot.mode) + budget;
    // Records and packets are made of each event.
    p.occasions = p.pebs.format() == PEBS_OFF && !p.pt ? p.pmu.occasions() : 0;

    unsigned watch = parts_watch(p, root);
    if (knobs().exit_paths && p.ledger.in_exit())
        watch |= TB_WATCH_EVENT;
    unsigned counted = p.pmu.counted();
    if (p.event_branch || p.event_memory || p.platform.asleep())
        watch |= TB_WATCH_EVENT;
    if (processor_records(p) || (counted & BRANCH_EVENTS) || processor_stores_branches(p) ||
        p.pebs.counters() != 0 || (p.debugctl & DEBUGCTL_BTF))
        watch |= TB_WATCH_BRANCH;
    if (pt_on(p))
        watch |= TB_WATCH_BRANCH | TB_WATCH_TRACE;
    if (counted & (ACCESS_EVENTS | CACHE_EVENTS))
        watch |= TB_WATCH_MEMORY;
    p.counts_accesses = counted & ACCESS_EVENTS;
    p.counts_fp = counted & 1u << EVENT_FP;
    if (knobs().exit_lines && p.ledger.in_exit())
        watch |= TB_WATCH_LINES;
    // Tracing was enabled, which takes effect after the instruction at hand.
    bool starting = p.pt && p.pt->trace.starting();
    hot.watch = watch;
    if (starting || (watch & TB_WATCH_EVENT))
        hot_watch_next(hot);
    as_planned(p);
    if (starting)
        processor_look_soon(p);
}

// An instruction within a trace is only told of by the end of the one before it. A log has all
// instructions.
void processor_set_deadline(Processor &p)
{
    struct tb_hot &hot = hot_of(p.id);
    uint64_t now = p.events.cycles(hot.mode);

    if (p.look_soon || (hot.watch & TB_WATCH_LOG) || hot.rpl == TB_RPL_NONE || p.look_at <= now)
        hot.deadline = 0;
    else if (p.look_at == PMU_NEVER)
        hot.deadline = PMU_NEVER;
    else
        hot.deadline = hot.retired + p.look_at - now;
}

void processor_look_soon(Processor &p)
{
    p.look_soon = true;
    hot_of(p.id).deadline = 0;
}

bool processor_is_due(const Processor &p) { return p.look_soon || is_planned(p); }

void processor_look(Processor &p, bxInstruction_c *i)
{
    count_retired(p);
    if (p.occasions > 0 && !is_planned(p)) {
        p.occasions--;
        as_planned(p);
        return;
    }
    uint64_t now = p.events.instructions();
    p.pmu.look(now);
    if (p.pebs.format() != PEBS_OFF)
        precise_retired(p, i);
    if (p.pmu.take_pmi(now))
        apic_pmi(p);
    processor_inject(p, hot_of(p.id).mode & MODE_ROOT_BIT);
    processor_plan(p);
    if (p.pt && p.pt->wants_boundary()) {
        p.pt->boundary();
        processor_plan(p);
    }
}

void processor_happens(Processor &p)
{
    if (p.occasions > 0)
        p.occasions--;
    else
        processor_look_soon(p);
}

void processor_touches(Processor &p, unsigned how)
{
    if (!p.counts_accesses)
        return;
    p.touched |= how;
    processor_look_soon(p);
}

void processor_untouched(Processor &p)
{
    p.touched = 0;
    p.loaded = false;
    p.load_source = LOAD_L1;
    p.fp_counts = 0;
}

// By physical address, past the guest's page tables and its EPT: the word may be the hypervisor's.
void processor_host_nmi(Processor &p)
{
    const Request &request = p.injector.request();
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u word;

    if (request.address != 0) {
        BX_MEM(0)->readPhysicalPage(cpu, request.address, sizeof(word), &word);
        word |= request.value;
        BX_MEM(0)->writePhysicalPage(cpu, request.address, sizeof(word), &word);
    }
    cpu->deliver_NMI();
}

void processor_raise_pmi(Processor &p, uint64_t status)
{
    p.pmu.raise(status, p.events.instructions() + 1);
    processor_plan(p);
}

void processor_inject(Processor &p, bool root)
{
    DueNmis due = p.injector.look(root, p.events.instructions_in(root));

    // SDM Vol. 3, "NMI Handling While in SMM".
    if (due.unblocked > 0)
        BX_CPU(p.id)->unmask_event(BX_EVENT_NMI);
    if (due.host > 0)
        processor_host_nmi(p);
    else if (due.all > 0)
        BX_CPU(p.id)->deliver_NMI();
}
