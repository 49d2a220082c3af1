/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exact list of memory accesses: the knob `memory_log`. One processor's accesses are held until
 * the instruction, or the delivery of an event, is complete; what a fault or VM exit undoes is
 * forgotten. Format: README.md, "Memory log". Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

enum MemoryKind : uint8_t {
    MEMORY_INSTRUCTION, /* by an instruction's operand, stack or string */
    MEMORY_WALK,        /* a page walk sets an accessed or dirty bit */
    MEMORY_EVENT,       /* a push of an event's delivery */
    MEMORY_SYSTEM,      /* a read of descriptor tables by an event's delivery */
    MEMORY_VMCALL,      /* no access: the guest's VMCALL exits; lin, phy, value are RAX, RBX, RCX */
    MEMORY_KINDS
};

constexpr uint8_t MEMORY_READ = 1;
constexpr uint8_t MEMORY_WRITE = 2;
constexpr uint8_t MEMORY_DEVICE = 4; /* not of a record: what is no memory is wanted */

/* The file's records, in the processor's own byte order, after MEMORY_MAGIC. */
struct MemoryRecord {
    uint64_t tsc;
    uint64_t rip;
    uint64_t lin;
    uint64_t phy;
    uint64_t value; /* up to 8 bytes of memory at phy after the access, within len */
    uint64_t cr3;
    uint32_t len;
    uint8_t cpu;
    uint8_t rw;       /* MEMORY_READ, MEMORY_WRITE or both */
    uint8_t kind;     /* MemoryKind */
    uint8_t mode;     /* 0 the guest or natively, 1 root mode */
    uint64_t retired; /* instructions that the guest retired before on this processor */
};

constexpr char MEMORY_MAGIC[] = "PMUmemlg"; /* without its final 0 */

/* Gives what is at a physical address now: `len` bytes, at most 8, as a number. */
using MemoryValue = std::function<uint64_t(uint64_t phy, uint32_t len)>;

/* Writes to the one file of all processors, which the first record begins. A file that cannot be
 * written ends the run. */
void memory_log_append(const std::string &path, const MemoryRecord &record);

/* One processor's part of the list. */
class MemoryLog {
public:
    /* An access of the instruction or delivery at hand. */
    void access(const MemoryRecord &record) { pending_.push_back(record); }
    /* What is at hand is complete: its accesses are written, with what memory holds now. */
    void commit(const std::string &path, const MemoryValue &value);
    /* It is undone, and begins anew or never. */
    void forget()
    {
        pending_.clear();
        delivering_ = false;
    }
    /* From here on an event is delivered. */
    void deliver()
    {
        forget();
        delivering_ = true;
    }
    bool delivering() const { return delivering_; }

private:
    std::vector<MemoryRecord> pending_;
    bool delivering_ = false;
};
