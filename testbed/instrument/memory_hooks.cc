// SPDX-License-Identifier: BSD-2-Clause
//
// Where Bochs' calls about memory and caches arrive: accesses, lines, prefetches, page walks.
#include "bochs.h"
#include "cpu.h"

#include <algorithm>

#include "decoder/ia_opcodes.h"
#include "hot.h"
#include "part.h"
#include "precise.h"
#include "processor.h"

namespace {

CacheOutcome one_line(Processor &p, Bit64u paddr, bool load)
{
    struct tb_hot &hot = hot_of(p.id);
    CacheOutcome outcome = p.cache.access(paddr);

    static constexpr Offcore kinds[][2] = {{NEAR_OWN_HIT, NEAR_READ_HIT},
                                           {OFFCORE_OWN_HIT, OFFCORE_READ_HIT},
                                           {OFFCORE_OWN_MISS, OFFCORE_READ_MISS}};

    if (outcome == CACHE_L1)
        return outcome;
    p.events.l1_misses[hot.mode]++;
    p.events.offcore[kinds[outcome - CACHE_NEAR][load]][hot.mode]++;
    processor_happens(p);
    return outcome;
}

void counted_access(Processor &p, Bit64u laddr, Bit64u paddr, unsigned len, unsigned rw)
{
    // Bit 2 stands for shadow stacks.
    bool load = (rw & BX_RW) != BX_WRITE;
    bool store = rw & BX_WRITE;
    Bit64u last = paddr + (len > 0 ? len - 1 : 0);

    processor_touches(p, (load ? TOUCHED_LOAD : 0) | (store ? TOUCHED_STORE : 0));
    // The local APIC's registers are in no cache.
    if (paddr >> 12 == TB_APIC_PAGE)
        return;
    // What is going to be written is asked for as such.
    CacheOutcome outcome = one_line(p, paddr, !store);
    if (last / Cache::LINE_BYTES != paddr / Cache::LINE_BYTES)
        outcome = std::max(outcome, one_line(p, last, !store));
    if (load) {
        p.loaded = true;
        p.load_source = std::max(p.load_source, static_cast<LoadSource>(outcome));
    }
    if (p.pebs.format() == PEBS_OFF)
        return;
    if (store)
        precise_store(p, laddr, outcome);
    if (!load)
        return;
    precise_load(p, laddr, outcome);
    if (p.precise.load.latency > p.pebs.load_latency())
        processor_touches(p, TOUCHED_SLOW);
}

}  // namespace

void tb_on_memory(unsigned cpu, Bit64u laddr, Bit64u paddr, unsigned len, unsigned rw)
{
    struct tb_hot &hot = hot_of(cpu);
    Processor &p = processor(cpu);

    if (p.precise.storing)
        return;
    if (hot.watch & TB_WATCH_LOG)
        tell_parts(&Part::access, p, Access{laddr, paddr, len, rw});
    // Each processor has registers of its own in the APIC's page.
    if ((hot.watch & TB_WATCH_LINES) && paddr >> 12 != TB_APIC_PAGE)
        p.lines.access(paddr, len, rw != BX_READ);
    if (hot.watch & TB_WATCH_MEMORY)
        counted_access(p, laddr, paddr, len, rw);
}

void tb_on_apic_access(unsigned cpu)
{
    processor(cpu).ledger.apic_access(hot_of(cpu).mode & TB_WORLD_ROOT ? WORLD_ROOT
                                                                       : WORLD_NONROOT);
}

void tb_on_clflush(bxInstruction_c *i, Bit64u paddr)
{
    // CLWB may leave the line where it is. SDM Vol. 2, "CLWB".
    if (i->getIaOpcode() == BX_IA_CLWB)
        return;
    // From the caches of all processors, counted or not.
    for (unsigned n = 0; n < processor_count(); n++)
        processor(n).cache.evict(paddr);
}

void tb_on_cache_control(unsigned cpu) { processor(cpu).cache.clear(); }

void tb_on_prefetch(unsigned cpu)
{
    // MEM_INST_RETIRED.ALL_LOADS has software prefetches in it.
    processor_touches(processor(cpu), TOUCHED_LOAD);
}

void tb_on_walk_update(unsigned cpu, Bit64u laddr, Bit64u paddr)
{
    tell_parts(&Part::walk, processor(cpu), laddr, paddr);
}

void tb_on_string(unsigned cpu, Bit64u laddr, Bit64u paddr, unsigned len, unsigned rw)
{
    tell_parts(&Part::access, processor(cpu), Access{laddr, paddr, len, rw});
}
