// SPDX-License-Identifier: BSD-2-Clause
//
// The knob `run_counts FILE`: of each region what the guest met: interrupts by vector, changes of
// the page table, and its accesses in a simulated cache, as a complete trace of the same run would
// feed it. Root mode's own accesses are none of the guest's. One line of JSON for a region, in the
// order of their ends.
#include "bochs.h"
#include "cpu.h"

#include <fstream>
#include <map>
#include <sstream>

#include "part.h"
#include "processor.h"
#include "small_cache.h"

namespace {

constexpr uint64_t CACHE_BYTES = 32768;  // the first level of a Skylake
constexpr unsigned CACHE_WAYS = 8;
constexpr uint64_t TABLE = ~uint64_t{0x1fff};  // no PCID, and no bit of page-table isolation
constexpr uint64_t USER_END = uint64_t{1} << 47;
constexpr unsigned CPL_USER = 3;

struct Counts {
    std::map<unsigned, uint64_t> interrupts;
    uint64_t switches = 0;
    uint64_t accesses = 0, misses = 0;         /* of the guest */
    uint64_t own_accesses = 0, own_misses = 0; /* of the process that opened the region */
};

class CountsPart : public Part {
public:
    unsigned watch(const Processor &, bool root) override
    {
        return open_ && !root ? TB_WATCH_LOG : 0;
    }
    void region(Processor &p, uint32_t id, bool begins) override;
    void interrupt(Processor &p, unsigned vector) override
    {
        if (open_ && !processor_in_root(p))
            counts_.interrupts[vector]++;
    }
    void loads_cr3(Processor &p, uint64_t cr3) override
    {
        if (open_ && !processor_in_root(p))
            table(cr3);
    }
    // A load that exited was made in root mode.
    void vm_entry(Processor &p) override
    {
        if (open_)
            table(BX_CPU(p.id)->cr3);
    }
    void access(Processor &p, const Access &access) override;
    void end(const MachineMemory &) override { std::ofstream(value) << lines_.str(); }

private:
    void table(uint64_t cr3)
    {
        counts_.switches += (cr3 & TABLE) != table_;
        table_ = cr3 & TABLE;
    }

    bool open_ = false;
    uint64_t own_ = 0, table_ = 0;
    Counts counts_;
    SmallCache cache_{CACHE_BYTES, CACHE_WAYS};
    std::ostringstream lines_;
};

void CountsPart::region(Processor &p, uint32_t id, bool begins)
{
    open_ = begins;
    processor_plan(p);
    if (begins) {
        counts_ = {};
        cache_.forget();
        own_ = table_ = BX_CPU(p.id)->cr3 & TABLE;
        return;
    }
    lines_ << "{\"region\": " << id << ", \"switches\": " << counts_.switches
           << ", \"accesses\": " << counts_.accesses << ", \"misses\": " << counts_.misses
           << ", \"own_accesses\": " << counts_.own_accesses
           << ", \"own_misses\": " << counts_.own_misses << ", \"interrupts\": {";
    const char *between = "";
    for (const auto &[vector, count] : counts_.interrupts) {
        lines_ << between << '"' << vector << "\": " << count;
        between = ", ";
    }
    lines_ << "}}\n";
}

void CountsPart::access(Processor &p, const Access &access)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    if (!open_ || processor_in_root(p))
        return;
    bool missed = cache_.misses(access.phy, access.len);
    counts_.accesses++;
    counts_.misses += missed;
    if (cpu->sregs[BX_SEG_REG_CS].selector.rpl == CPL_USER && access.lin < USER_END &&
        (cpu->cr3 & TABLE) == own_) {
        counts_.own_accesses++;
        counts_.own_misses += missed;
    }
}

}  // namespace

Part &run_counts_part()
{
    static CountsPart part;

    return part;
}
