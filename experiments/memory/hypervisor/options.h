/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options of the memory trace. The rows have the format of boot/option_table.h.
 */
#pragma once

#define MEMTRACE_MAX_MS 10000

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(memtrace, CHOICE, ring_options.memory, MEMTRACE_OFF,                                    \
           "off, writes, reads, all, devices or pages",                                            \
           VALUES(NAME("off", MEMTRACE_OFF), NAME("writes", MEMTRACE_WRITES),                      \
                  NAME("reads", MEMTRACE_READS), NAME("all", MEMTRACE_ALL),                        \
                  NAME("devices", MEMTRACE_DEVICES), NAME("pages", MEMTRACE_PAGES)),               \
           "The memory accesses that PMUvisor records if the guest asks. Each record needs an "    \
           "EPT violation and a single step. With memtrace=reads or memtrace=all, PMUvisor takes " \
           "2 MiB for each GiB of memory, at most 512 MiB. devices: only accesses to devices' "    \
           "registers and memory. pages: only which pages are written, from the processor's own "  \
           "log. Not with trace=. off costs nothing.")                                             \
    OPTION(memtrace_step, CHOICE, memory_options.exits, false, "blocked or exits",                 \
           VALUES(NAME("blocked", false), NAME("exits", true)),                                    \
           "What keeps an interrupt or NMI from arriving before the single-stepped instruction. "  \
           "blocked: the processor's blocking by MOV SS. exits: an exit, for a processor that "    \
           "does not block this way; a write then costs more. Reads always use exits.")            \
    OPTION(memtrace_ms, NUMBER, memory_options.ms, 0,                                              \
           "milliseconds from 0 (at a hypercall) to 10000", VALUES(NAME(NULL, MEMTRACE_MAX_MS)),   \
           "Records accesses to all memory from the start on, for this number of milliseconds. "   \
           "0: the guest selects the memory and the time by a hypercall.")
