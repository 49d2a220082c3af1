/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A program of x86-64 code in two places, user and kernel, and a processor that walks through it by
 * chance: it tells a trace what it does, and notes each instruction that the trace is to show. Its
 * events come between any two instructions. The code is real, so that a decoder can follow it.
 */
#pragma once

#include <functional>
#include <random>

#include "pt_memory.h"

class TracedProgram {
public:
    static constexpr uint64_t USER = 0x401000, KERNEL = 0xffffffff81000000;
    static constexpr unsigned SLOTS = 64, SLOT_BYTES = 32;
    static constexpr uint64_t CR3S[2] = {0x1234000, 0x5678000};

    TracedProgram(Traced &traced, unsigned seed, bool moves_cr3 = true);

    /* So many instructions from the beginning. */
    void run(unsigned instructions);
    /* The byte at an address; -1: there is none. */
    int byte(uint64_t address) const;
    uint64_t ip() const { return ip_; }

    /* The addresses of all instructions in context, in order. */
    std::vector<uint64_t> shown;
    /* Which of those count: by privilege level and address. */
    std::function<bool(unsigned cpl, uint64_t ip, uint64_t cr3)> wanted;
    bool events = true;
    bool wild_returns = true;

private:
    enum Kind { NOP, JCC, JMP, CALL, JMP_RAX, CALL_RAX, RET, SYSCALL, SYSRET, IRET, INT3, MOV_CR3 };
    struct Slot {
        unsigned nops;
        Kind kind;
        unsigned target;
    };

    unsigned pick(unsigned below) { return random_() % below; }
    uint64_t start_of(bool kernel, unsigned slot) const
    {
        return (kernel ? KERNEL : USER) + slot * SLOT_BYTES;
    }
    void assemble(bool kernel, unsigned slot);
    void execute();
    void go(uint64_t ip);
    void enter_kernel(uint64_t handler, uint64_t back);

    Traced &traced_;
    std::mt19937 random_;
    Slot slots_[2][SLOTS];
    std::vector<uint8_t> code_[2];
    uint64_t ip_ = USER;
    std::vector<uint64_t> stack_[2];    /* return addresses, user's and kernel's */
    std::vector<uint64_t> interrupted_; /* where the kernel goes back to by IRET */
    uint64_t sysret_ = 0;
};
