/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Intel PT of one of Bochs' processors: what pt.h asks of the processor and of memory, and what
 * the hooks tell it. Output by guest-physical addresses goes through EPT by translations that were
 * made ahead, at an instruction boundary: a VM exit for one finds the packets before it written,
 * and room for its own. SDM Vol. 3, "Translation of Guest-Physical Addresses Used by Intel
 * Processor Trace", "Trace-Address Pre-Translation (TAPT)".
 */
#pragma once

#include <map>

#include "pt.h"

struct Processor;

class PtMachine : private PtProcessor, private PtMemory {
public:
    explicit PtMachine(Processor &p);

    Pt trace;

    /* Between two instructions, or at the end of a VM entry: tracing that was enabled begins, and
     * the pages that come next are translated. May end in a VM exit, and not come back. */
    void boundary();
    /* boundary() has to come after the instruction at hand. */
    bool wants_boundary() { return trace.starting() || (trace.on() && trace.output().moved()); }
    /* Such a translation is under way: the VM exit is asynchronous to the instruction. */
    bool translating() const { return translating_; }
    void exited() { translating_ = false; }

    void branch(unsigned what, uint64_t to, unsigned length);
    void far_branch(unsigned what, uint64_t from, uint64_t to);

    /* RDMSR and WRMSR. `list`: by an MSR list of VMX. */
    MsrResult read_msr(uint32_t index, uint64_t *value) const
    {
        return trace.read_msr(index, value);
    }
    MsrResult write_msr(uint32_t index, uint64_t value, bool list);
    /* VMXON has succeeded. */
    void vmxon();
    /* VMPTRLD is about to be executed; another instruction is. */
    void vmptrld_begins();
    void executes();

private:
    PtContext context() override;
    PtMoment now() override;
    uint64_t read_entry(uint64_t address) override;
    void write(uint64_t address, uint8_t byte) override;
    void interrupt() override;

    bool by_guest_addresses() const;
    /* Of a page; with guest-physical addresses it is known, or can be had now. False: neither. */
    bool find(uint64_t address, bool writes, uint64_t *physical);

    Processor &p_;
    bool translating_ = false;
    std::map<uint64_t, uint64_t> pages_; /* guest-physical, physical; those written to have bit 0 */
    bool loads_vmcs_ = false;
    uint64_t vmcs_ = PT_NO_VMCS;
};

/* Gives the processor PT, or none, as the knobs say. */
void pt_take_knobs(Processor &p);

/* The processor has PT, and it is on. */
bool pt_on(const Processor &p);
