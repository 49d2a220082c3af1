// SPDX-License-Identifier: BSD-2-Clause
#include "pt_time.h"

#include "msr_index.h"

namespace {

// Eight bits tell MTCs apart: after so many nobody knows how much time has passed.
constexpr uint64_t MTC_WRAP = 256;

}  // namespace

uint64_t PtTime::art(const PtMoment &now) const
{
    return static_cast<uint64_t>(static_cast<unsigned __int128>(now.clock) * crystal_.denominator /
                                 crystal_.numerator);
}

unsigned PtTime::mtc_shift() const { return msrs_.field(RTIT_CTL_MTCFREQ_SHIFT); }

void PtTime::begin(const PtMoment &now)
{
    last_mtc_ = art(now) >> mtc_shift();
    last_cyc_ = now.cycles;
}

// Sections 4.2.10, 4.2.11 and 4.2.13. FastCounter is what has passed of the ART's tick, in TSC.
void PtTime::status(const PtMoment &now)
{
    if (msrs_.ctl() & RTIT_CTL_TSCEN) {
        eligible(now.cycles);
        packets_.tsc(now.tsc);
        if (msrs_.ctl() & RTIT_CTL_MTCEN) {
            uint64_t ticks = art(now);
            uint64_t tick_began = static_cast<uint64_t>(
                (static_cast<unsigned __int128>(ticks) * crystal_.numerator + crystal_.denominator -
                 1) /
                crystal_.denominator);
            packets_.tma(static_cast<uint16_t>(ticks),
                         static_cast<uint16_t>(now.clock - tick_began));
            last_mtc_ = ticks >> mtc_shift();
        }
    }
    packets_.cbr(ratio_);
}

bool PtTime::due(const PtMoment &now) const
{
    return (msrs_.ctl() & RTIT_CTL_MTCEN) && art(now) >> mtc_shift() != last_mtc_;
}

// Section 4.2.12. After a sleep the TSC tells the time again, as after a C-state.
void PtTime::catch_up(const PtMoment &now)
{
    if (!due(now))
        return;
    uint64_t mtc = art(now) >> mtc_shift();
    if (mtc - last_mtc_ >= MTC_WRAP && (msrs_.ctl() & RTIT_CTL_TSCEN)) {
        status(now);
        return;
    }
    if (mtc - last_mtc_ >= MTC_WRAP)
        last_mtc_ = mtc - 1;
    while (last_mtc_ != mtc) {
        eligible(now.cycles);
        packets_.mtc(static_cast<uint8_t>(++last_mtc_));
    }
}

// Section 3.6: once in a cycle at most, and not before the threshold has passed.
void PtTime::eligible(uint64_t cycles)
{
    unsigned threshold = msrs_.field(RTIT_CTL_CYCTHRESH_SHIFT);
    uint64_t least = threshold == 0 ? 1 : uint64_t{1} << (threshold - 1);

    if (!(msrs_.ctl() & RTIT_CTL_CYCEN) || cycles < last_cyc_ + least)
        return;
    packets_.cyc(cycles - last_cyc_);
    last_cyc_ = cycles;
}
