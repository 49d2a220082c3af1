/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory that a trace is written to, and a processor that it is of: as tests set both.
 */
#pragma once

#include <map>
#include <vector>

#include "check.h"
#include "msr_index.h"
#include "pt.h"

struct TraceMemory : PtMemory {
    std::map<uint64_t, uint64_t> entries; /* of tables, by address */
    std::map<uint64_t, uint8_t> bytes;
    std::vector<uint8_t> stream; /* in the order of the writes */
    unsigned interrupts = 0;

    uint64_t read_entry(uint64_t address) override { return entries[address]; }
    void write(uint64_t address, uint8_t byte) override
    {
        bytes[address] = byte;
        stream.push_back(byte);
    }
    void interrupt() override { interrupts++; }
};

struct TracedProcessor : PtProcessor {
    PtContext state;
    PtMoment moment;

    PtContext context() override { return state; }
    PtMoment now() override { return moment; }
};

/* Both, and the trace. 64-bit code at CPL 3 unless a test says otherwise. */
struct Traced {
    TraceMemory memory;
    TracedProcessor processor;
    Pt pt;

    explicit Traced(const PtShape &shape = PtShape(), const PtCrystal &crystal = PtCrystal())
        : pt(processor, memory, shape, crystal, 35)
    {
        processor.state.cpl = 3;
        processor.state.cr3 = 0x1234000;
        // A single range of 1 MiB.
        set(IA32_RTIT_OUTPUT_BASE, 0x10000000);
        set(IA32_RTIT_OUTPUT_MASK_PTRS, 0xfffff);
    }
    void set(uint32_t index, uint64_t value)
    {
        CHECK_EQUAL(pt.write_msr(index, value, nullptr), MSR_DONE);
    }
    uint64_t get(uint32_t index) const
    {
        uint64_t value = 0;
        CHECK_EQUAL(pt.read_msr(index, &value), MSR_DONE);
        return value;
    }
    void start(uint64_t ctl, uint64_t ip)
    {
        set(IA32_RTIT_CTL, ctl | RTIT_CTL_TRACEEN);
        pt.start(ip);
    }
    void stop(uint64_t ip)
    {
        uint64_t ctl = get(IA32_RTIT_CTL) & ~RTIT_CTL_TRACEEN;
        CHECK_EQUAL(pt.write_msr(IA32_RTIT_CTL, ctl, &ip), MSR_DONE);
    }
    /* What was written since the last call. */
    std::vector<uint8_t> take()
    {
        std::vector<uint8_t> all;
        all.swap(memory.stream);
        return all;
    }
};

using Bytes = std::vector<uint8_t>;

/* As text, for checks. */
inline std::string hex(const Bytes &bytes)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;

    for (uint8_t byte : bytes)
        text += {digits[byte >> 4], digits[byte & 15], ' '};
    return text;
}
