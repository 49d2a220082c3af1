// SPDX-License-Identifier: BSD-2-Clause
//
// Where Bochs' calls arrive: each hook goes to the parts that want it, in an order that matters and is
// written down here. Holds no state but the hot one.
#include "bochs.h"
#include "cpu.h"

#include "knobs.h"
#include "machine.h"

struct tb_hot tb_hot[TB_MAX_CPUS];

void tb_init_env(void)
{
    knobs_init();
    machine_init();
}

void tb_exit_env(void)
{
    machine_exit();
}

void tb_initialize(unsigned) {}

void tb_reset(unsigned cpu, unsigned type)
{
    tb_hot[cpu].deadline = ~0ull;
    if (cpu == 0)
        machine_reset(type == BX_RESET_HARDWARE);
}

void tb_on_mode(unsigned cpu, unsigned user)
{
    struct tb_hot &hot = tb_hot[cpu];
    hot.world = 0;
    hot.mode = user;
}
void tb_on_deadline(unsigned) {}
void tb_on_opcode(unsigned, bxInstruction_c *) {}
void tb_on_branch(unsigned, unsigned, Bit64u, Bit64u, unsigned) {}
void tb_on_far_branch(unsigned, unsigned, Bit64u, Bit64u) {}
void tb_on_exception(unsigned, unsigned) {}
void tb_on_interrupt(unsigned, unsigned) {}
void tb_on_hwinterrupt(unsigned, unsigned, Bit64u) {}
void tb_on_memory(unsigned, Bit64u, unsigned, unsigned) {}
void tb_on_outp(Bit16u port, unsigned len, unsigned value)
{
    machine_outp(port, len, value);
}
void tb_on_wrmsr(unsigned, unsigned, Bit64u) {}
void tb_on_vmexit(unsigned, Bit32u, Bit64u) {}
void tb_on_tlb_control(unsigned, unsigned) {}
