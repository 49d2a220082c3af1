/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state that every emulated instruction touches (instrument.h), and how it changes so that the
 * hooks see it: they compare CS.RPL and a number of instructions, and nothing else.
 */
#pragma once

#include "bochs.h"
#include "cpu.h"

inline struct tb_hot &hot_of(unsigned cpu) { return BX_CPU(cpu)->tb; }

/* The next instruction is told of. */
inline void hot_watch_next(struct tb_hot &hot)
{
    hot.watch |= TB_WATCH_EVENT;
    hot.rpl = TB_RPL_NONE;
    hot.deadline = 0;
}

/* It belongs to this world: TB_WORLD_*, or 0. */
inline void hot_set_world(struct tb_hot &hot, unsigned world)
{
    hot.world = world;
    hot.rpl = TB_RPL_NONE;
    hot.deadline = 0;
}

/* Counts by mode what has retired since the last call. */
inline void hot_count(struct tb_hot &hot)
{
    hot.by_mode[hot.mode] += hot.retired - hot.counted;
    hot.counted = hot.retired;
}
