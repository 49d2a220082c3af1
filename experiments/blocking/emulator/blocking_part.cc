// SPDX-License-Identifier: BSD-2-Clause
//
// What holds NMIs and PMIs back, each time it changes: the knob `blocking_log` (README.md has the
// file's lines). A processor's state is looked at before each of its instructions. SDM Vol. 3,
// "Handling Multiple NMIs"; "Local Vector Table".
#include "bochs.h"
#include "cpu.h"

#include <cstdio>
#include <cstdlib>
#include <map>

#include "apic.h"
#include "part.h"
#include "processor.h"

namespace {

constexpr Bit32u LVT_MASKED = 1u << 16;

struct State {
    bool root, blocked, masked;

    bool operator!=(const State &other) const
    {
        return root != other.root || blocked != other.blocked || masked != other.masked;
    }
};

class BlockingPart : public Part {
public:
    unsigned watch(const Processor &, bool) override { return TB_WATCH_EVENT; }
    void executes(Processor &p) override;
    void nmi(Processor &p) override { write(p, "nmi"); }
    void region(Processor &p, uint32_t id, bool begins) override
    {
        if (!file_) {
            open();
            last_.erase(p.id);
            executes(p);
        }
        write(p, (begins ? "begin " : "end ") + std::to_string(id));
    }

private:
    void open();
    void write(const Processor &p, const std::string &what);

    FILE *file_ = nullptr;
    std::map<unsigned, State> last_;
};

/* With the first region: nothing before it is of interest. */
void BlockingPart::open()
{
    file_ = std::fopen(value.c_str(), "w");
    if (file_)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write the log of blocking\n", value.c_str());
    std::exit(EXIT_FAILURE);
}

void BlockingPart::write(const Processor &p, const std::string &what)
{
    if (file_)
        std::fprintf(file_, "%llu %u %s\n",
                     static_cast<unsigned long long>(p.events.instructions()), p.id, what.c_str());
}

void BlockingPart::executes(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    State now = {processor_in_root(p), cpu->is_masked_event(BX_EVENT_NMI) != 0,
                 (cpu->lapic->read_aligned(BX_LAPIC_LVT_PERFMON) & LVT_MASKED) != 0};

    if (last_.count(p.id) > 0 && !(now != last_[p.id]))
        return;
    last_[p.id] = now;
    write(p, "state root=" + std::to_string(now.root) + " blocked=" + std::to_string(now.blocked) +
                 " masked=" + std::to_string(now.masked));
}

}  // namespace

Part &blocking_log_part()
{
    static BlockingPart part;

    return part;
}
