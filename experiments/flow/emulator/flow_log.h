/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exact list of what decides which process runs: the knob `flow_log`. Loads of CR3, sleep and
 * wake-up, interrupts, VM exits and entries, of all processors in one file, outside root mode.
 * Format: README.md, "Flow log". Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <string>

enum FlowKind : uint8_t {
    FLOW_CR3 = 1,   /* CR3 is loaded: `value` is the new one */
    FLOW_HLT,       /* asleep, by HLT or by a VM entry into that activity state */
    FLOW_MWAIT,     /* asleep, by MWAIT */
    FLOW_WAKE,      /* awake again */
    FLOW_INTERRUPT, /* an external interrupt is delivered: `value` is its vector */
    FLOW_NMI,       /* an NMI is delivered */
    FLOW_EXIT,      /* VM exit: `value` is the exit reason */
    FLOW_ENTRY,     /* VM entry: `value` is the VM-entry interruption information */
    FLOW_OFFSET, /* before an entry: from now on the guest's RDTSC gives `value` more than `tsc` */
    FLOW_KINDS
};

/* The file's records, in the processor's own byte order, after FLOW_MAGIC. */
struct FlowRecord {
    uint64_t tsc;
    uint64_t rip;
    uint64_t rsp;
    uint64_t cr3;
    uint64_t eptp; /* the EPT pointer of the VMCS in use; natively and without EPT 0 */
    uint64_t value;
    uint8_t kind;
    uint8_t processor;
    uint8_t unused[6];
};

constexpr char FLOW_MAGIC[] = "PMUflow2"; /* without its final 0 */

/* One processor's part of the list: it knows whether the processor sleeps. */
class FlowLog {
public:
    bool asleep() const { return asleep_; }
    /* Writes the event to the file, which the first one begins. What comes from a sleeping
     * processor has waked it, and says so first. A file that cannot be written ends the run. */
    void event(const FlowRecord &record, const std::string &path);
    /* It executes an instruction: awake without any event, as from MWAIT by a write. */
    void executes(FlowRecord record, const std::string &path);

private:
    bool asleep_ = false;
};
