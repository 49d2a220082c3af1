/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The packets of time: TSC, TMA, MTC, CYC, CBR, and when each is due. The crystal's clock (ART) is
 * the TSC divided as CPUID leaf 15H says; a cycle is an instruction. An MTC that becomes due is
 * sent before the next other packet. Knows no Bochs. SDM Vol. 3, "Intel Processor Trace",
 * sections 3.6 and 4.2.10 to 4.2.14.
 */
#pragma once

#include <cstdint>

#include "pt_msrs.h"
#include "pt_packets.h"

/* A moment. */
struct PtMoment {
    uint64_t tsc = 0;   /* as RDTSC has it */
    uint64_t clock = 0; /* the same without the offset of a guest */
    uint64_t cycles = 0;
};

/* TSC = ART * numerator / denominator: CPUID.15H:EBX and EAX. */
struct PtCrystal {
    uint64_t numerator = 1;
    uint64_t denominator = 1;
};

class PtTime {
public:
    PtTime(const PtMsrs &msrs, PtPackets &packets, const PtCrystal &crystal, uint8_t ratio)
        : msrs_(msrs), packets_(packets), crystal_(crystal), ratio_(ratio)
    {
    }

    /* Tracing begins: nothing is due yet. */
    void begin(const PtMoment &now);
    /* TSC and TMA as far as they are enabled, then CBR: at the start and in PSB+. */
    void status(const PtMoment &now);
    /* What became due before now. True: there was something, or will be. */
    bool due(const PtMoment &now) const;
    void catch_up(const PtMoment &now);
    /* A packet that a CYC comes before is about to be sent, of this cycle. */
    void eligible(uint64_t cycles);

private:
    uint64_t art(const PtMoment &now) const;
    unsigned mtc_shift() const;

    const PtMsrs &msrs_;
    PtPackets &packets_;
    PtCrystal crystal_;
    uint8_t ratio_;
    uint64_t last_mtc_ = 0; /* ART without its bits below the period's */
    uint64_t last_cyc_ = 0;
};
