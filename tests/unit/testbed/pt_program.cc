// SPDX-License-Identifier: BSD-2-Clause
#include "pt_program.h"

namespace {

constexpr unsigned USER_CPL = 3;
constexpr int INT3_OPCODE = 0xcc;

}  // namespace

TracedProgram::TracedProgram(Traced &traced, unsigned seed, bool moves_cr3)
    : traced_(traced), random_(seed)
{
    static constexpr Kind user[] = {JCC,      JCC,     JCC, JCC, JMP, CALL,    CALL,
                                    CALL_RAX, JMP_RAX, RET, RET, RET, SYSCALL, INT3};
    static constexpr Kind kernel[] = {JCC, JCC,     JCC,    JMP,  CALL, RET,
                                      RET, JMP_RAX, SYSRET, IRET, IRET, MOV_CR3};

    wanted = [](unsigned, uint64_t, uint64_t) { return true; };
    for (unsigned side = 0; side < 2; side++) {
        code_[side].assign(SLOTS * SLOT_BYTES, 0x90);
        for (unsigned n = 0; n < SLOTS; n++) {
            Kind kind = side ? kernel[pick(std::size(kernel))] : user[pick(std::size(user))];
            if (kind == MOV_CR3 && !moves_cr3)
                kind = JCC;
            // A loop of direct branches alone has no packets: a decoder could not tell how often.
            bool last = n == SLOTS - 1, direct = kind == JMP || kind == CALL;
            slots_[side][n] = {pick(4), last ? JMP_RAX : kind,
                               direct && !last ? n + 1 + pick(SLOTS - 1 - n) : pick(SLOTS)};
            assemble(side, n);
        }
    }
    traced_.processor.state.cpl = USER_CPL;
    traced_.processor.state.cr3 = CR3S[0];
}

// NOPs, the branch, and a JMP to the next slot for those that it falls through.
void TracedProgram::assemble(bool kernel, unsigned n)
{
    const Slot &slot = slots_[kernel][n];
    uint8_t *at = code_[kernel].data() + n * SLOT_BYTES + slot.nops;
    uint64_t ip = start_of(kernel, n) + slot.nops;
    auto put = [&at](std::initializer_list<uint8_t> bytes) {
        for (uint8_t byte : bytes)
            *at++ = byte;
    };
    auto relative = [&](uint64_t target, unsigned length) {
        uint32_t offset = static_cast<uint32_t>(target - (ip + length));
        for (unsigned k = 0; k < 4; k++)
            *at++ = static_cast<uint8_t>(offset >> 8 * k);
    };

    switch (slot.kind) {
    case JCC:
        put({0x0f, 0x84});
        relative(start_of(kernel, slot.target), 6);
        break;
    case JMP:
        put({0xe9});
        relative(start_of(kernel, slot.target), 5);
        break;
    case CALL:
        put({0xe8});
        relative(start_of(kernel, slot.target), 5);
        break;
    case JMP_RAX:
        put({0xff, 0xe0});
        break;
    case CALL_RAX:
        put({0xff, 0xd0});
        break;
    case RET:
        put({0xc3});
        break;
    case SYSCALL:
        put({0x0f, 0x05});
        break;
    case SYSRET:
        put({0x48, 0x0f, 0x07});
        break;
    case IRET:
        put({0x48, 0xcf});
        break;
    case INT3:
        put({INT3_OPCODE});
        break;
    case MOV_CR3:
        put({0x0f, 0x22, 0xd8});
        break;
    case NOP:
        break;
    }
    ip = start_of(kernel, n) + static_cast<uint64_t>(at - (code_[kernel].data() + n * SLOT_BYTES));
    put({0xe9});
    relative(start_of(kernel, (n + 1) % SLOTS), 5);
}

int TracedProgram::byte(uint64_t address) const
{
    for (unsigned side = 0; side < 2; side++) {
        uint64_t offset = address - start_of(side, 0);
        if (offset < code_[side].size())
            return code_[side][offset];
    }
    return -1;
}

void TracedProgram::go(uint64_t ip) { ip_ = ip; }

void TracedProgram::enter_kernel(uint64_t handler, uint64_t back)
{
    interrupted_.push_back(back);
    traced_.processor.state.cpl = 0;
    go(handler);
}

// The next instruction, whose bytes say what it is.
void TracedProgram::execute()
{
    Pt &pt = traced_.pt;
    bool kernel = ip_ >= KERNEL;
    unsigned at = static_cast<unsigned>(ip_ - start_of(kernel, 0));
    const Slot &slot = slots_[kernel][at / SLOT_BYTES];
    unsigned offset = at % SLOT_BYTES;
    uint64_t from = ip_, handler = start_of(true, pick(SLOTS));
    std::vector<uint64_t> &stack = stack_[kernel];

    if (offset < slot.nops)
        return go(ip_ + 1);
    if (offset > slot.nops) {
        go(start_of(kernel, (at / SLOT_BYTES + 1) % SLOTS));
        return pt.near(PT_DIRECT, ip_, 0);
    }
    static constexpr unsigned lengths[] = {0, 6, 5, 5, 2, 2, 1, 2, 3, 2, 1, 3};
    uint64_t next = from + lengths[slot.kind];
    uint64_t near = start_of(kernel, slot.target), anywhere = start_of(kernel, pick(SLOTS));
    switch (slot.kind) {
    case JCC: {
        bool taken = pick(2);
        go(taken ? near : next);
        return pt.conditional(taken, ip_);
    }
    case JMP:
        go(near);
        return pt.near(PT_DIRECT, ip_, 0);
    case CALL:
        stack.push_back(next);
        go(near);
        return pt.near(PT_DIRECT, ip_, next);
    case JMP_RAX:
        go(anywhere);
        return pt.near(PT_INDIRECT, ip_, 0);
    case CALL_RAX:
        stack.push_back(next);
        go(anywhere);
        return pt.near(PT_INDIRECT, ip_, next);
    case RET: {
        bool wild = stack.empty() || (wild_returns && pick(8) == 0);
        go(wild ? anywhere : stack.back());
        if (!stack.empty())
            stack.pop_back();
        return pt.near(PT_RETURN, ip_, 0);
    }
    case SYSCALL:
        sysret_ = next;
        traced_.processor.state.cpl = 0;
        go(handler);
        return pt.far(ip_);
    case INT3:
        enter_kernel(handler, next);
        return pt.software_interrupt(from, ip_);
    case SYSRET:
        // In an interrupt's handler it would not come; then it is a NOP to this processor.
        if (!interrupted_.empty() || sysret_ == 0)
            sysret_ = start_of(false, pick(SLOTS));
        interrupted_.clear();
        traced_.processor.state.cpl = USER_CPL;
        go(sysret_);
        return pt.far(ip_);
    case IRET:
        go(interrupted_.empty() ? start_of(false, pick(SLOTS)) : interrupted_.back());
        if (!interrupted_.empty())
            interrupted_.pop_back();
        traced_.processor.state.cpl = ip_ >= KERNEL ? 0 : USER_CPL;
        return pt.far(ip_);
    case MOV_CR3:
        traced_.processor.state.cr3 = CR3S[pick(2)];
        go(next);
        return pt.mov_cr3(ip_);
    case NOP:
        break;
    }
}

void TracedProgram::run(unsigned instructions)
{
    Traced &t = traced_;

    for (unsigned n = 0; n < instructions; n++) {
        t.processor.moment.cycles++;
        t.processor.moment.tsc++;
        t.processor.moment.clock++;
        if (events && pick(50) == 0) {
            t.pt.event_from(ip_);
            enter_kernel(start_of(true, pick(SLOTS)), ip_);
            t.pt.event_to(ip_);
        }
        // A decoder takes INT3 for an event before it, by its FUP.
        if (byte(ip_) != INT3_OPCODE && wanted(t.processor.state.cpl, ip_, t.processor.state.cr3))
            shown.push_back(ip_);
        execute();
    }
}
