/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What experiments have of the library: parts that hear what the processors do, and write a file.
 * The knob NAME VALUE turns one on. Their files are in experiments/NAME/emulator/; those that know
 * Bochs are named *_part.cc. parts.inc there has a row PART(name, begins, wanted) of each: the
 * knob, when its file begins (knobs.h), and the function that says what its value has to be.
 * NAME_part() gives the part. The build makes one parts.inc of all. A part changes nothing of the
 * machine. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "branch.h"

struct Processor;

/* The guest's memory as the host has it; page() is null where none is there. */
struct MachineMemory {
    uint64_t bytes;
    std::function<const uint8_t *(uint64_t address)> page;
};

struct Access {
    uint64_t lin;
    uint64_t phy;
    uint32_t len;
    unsigned rw; /* as Bochs has it */
};

class Part {
public:
    virtual ~Part() = default;

    /* What its knob was given. */
    std::string value;

    /* The hooks that it needs until the next plan: TB_WATCH_*, with the processor in root mode or
     * outside it. */
    virtual unsigned watch(const Processor &, bool /* root */) { return 0; }
    /* Of a run that a server at init forks: why it cannot begin here; empty: it can. */
    virtual std::string late() { return ""; }
    /* The run ends. */
    virtual void end(const MachineMemory &) {}

    /* A region of the ledger; and a marker that the library does not know (README.md, "Knobs"). */
    virtual void region(Processor &, uint32_t /* id */, bool /* begins */) {}
    virtual void marker(uint32_t /* ECX */, uint32_t /* EAX */) {}

    /* A branch was taken, or an event delivered. With TB_WATCH_BRANCH. */
    virtual void branch(Processor &, const TracedBranch &) {}

    /* What decides which process runs. The next instruction is told of with TB_WATCH_EVENT. */
    virtual void executes(Processor &) {}
    virtual void loads_cr3(Processor &, uint64_t /* cr3 */) {}
    virtual void sleeps(Processor &, bool /* by MWAIT */) {}
    virtual void interrupt(Processor &, unsigned /* vector */) {}
    virtual void nmi(Processor &) {}

    /* A VM exit begins, with the processor still the guest's; a VM entry has loaded its state. */
    virtual void vm_exit(Processor &, uint32_t /* reason */) {}
    virtual void vm_entry(Processor &) {}

    /* Memory, with TB_WATCH_LOG. An access, before it is made. A page walk has set a bit of the 8
     * bytes at phy. The instruction, an iteration of it, or the delivery of an event is complete.
     * And at any time: an event is delivered, and what was at hand is undone. */
    virtual void access(Processor &, const Access &) {}
    virtual void walk(Processor &, uint64_t /* lin */, uint64_t /* phy */) {}
    virtual void complete(Processor &) {}
    virtual void delivery(Processor &) {}
};

/* Those whose knob is given. */
const std::vector<Part *> &parts();

/* Takes over the knobs, as they are now. */
void parts_take_knobs();

template<typename... Wanted, typename... Given>
void tell_parts(void (Part::*what)(Wanted...), Given &&...given)
{
    for (Part *part : parts())
        (part->*what)(given...);
}

/* What all of them watch. */
unsigned parts_watch(const Processor &p, bool root);
