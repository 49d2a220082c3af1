/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options of pmuvisor.cfg and the load options, one row for each. The parser (boot/options.c)
 * and the pages docs/options.md and docs/pmuvisor.7 (docs/options.py) are made from this table. The
 * help is for the pages only and is not part of the image. Each experiment has its own table.
 *
 * OPTION(key, kind, field, initial, wanted, values, help)
 *   key      as the user writes it
 *   kind     enum option_kind of options.h
 *   field    of struct options
 *   initial  the field's value before any source is read; {0}: empty text
 *   wanted   what an error message says is wanted; NULL: the text may be empty
 *   values   VALUES(NAME("as written", value), ...); for a NUMBER only its largest value
 *   help     sentences for a user
 * Code that expands OPTIONS must define VALUES and NAME, too.
 */
#pragma once

#define OPTIONS(OPTION)                                                                            \
    OPTION(                                                                                        \
        policy, CHOICE, policy, POLICY_MSR_NMI,                                                    \
        "intercept, msr or msr+nmi, or an experiment's that a pmuvisor-lab.efi has",               \
        VALUES(NAME("intercept", POLICY_INTERCEPT), NAME("msr", POLICY_MSR),                       \
               NAME("msr+nmi", POLICY_MSR_NMI)),                                                   \
        "What exits. intercept: each access to the PMU and to branch records (LBRs), and NMIs. "   \
        "msr: NMIs alone. msr+nmi: neither; the guest has the PMU and takes its own NMIs. "        \
        "An experiment may add a policy: its page says so.")                                       \
    OPTION(apic, CHOICE, apic_trap, false, "pass or trap",                                         \
           VALUES(NAME("pass", false), NAME("trap", true)),                                        \
           "trap makes each access to the local APIC exit, as in the thesis; pass makes none.")    \
    OPTION(kernel, TEXT, kernel, "vmlinuz", "the path of a kernel", VALUES(NAME(NULL, 0)),         \
           "The guest's kernel: a path on the image's volume, with / or \\. A path that does not " \
           "begin with one of them starts in the image's folder.")                                 \
    OPTION(initrd, TEXT, initrd, "initrd.img", NULL, VALUES(NAME(NULL, 0)),                        \
           "The guest's initramfs, a path as kernel's. Empty: none.")                              \
    OPTION(append, REST, append, {0}, NULL, VALUES(NAME(NULL, 0)),                                 \
           "The kernel's command line. It takes the rest of its line, so it comes last.")          \
    OPTION(console, PORT, console, CONSOLE_AUTO,                                                   \
           "auto, com1, com2, none or an I/O port such as 0x3e8",                                  \
           VALUES(NAME("auto", CONSOLE_AUTO), NAME("com1", SERIAL_COM1),                           \
                  NAME("com2", SERIAL_COM2), NAME("none", CONSOLE_NONE)),                          \
           "The serial port to write to: a 16550, set to 115200 8N1; and the screen, until the "   \
           "guest starts. auto: the port that ACPI's table SPCR names, at its rate, else com1.")   \
    OPTION(wait, NUMBER, wait_s, WAIT_DEFAULT_S, "seconds from 0 to 3600",                         \
           VALUES(NAME(NULL, WAIT_MAX_S)),                                                         \
           "How long a refusal stays on the screen, or until a key, before firmware or the boot "  \
           "menu goes on; and how long the report of a fault does with fault=reset. Where there "  \
           "is no screen a refusal does not wait.")                                                \
    OPTION(fault, CHOICE, fault_reset, false, "halt or reset",                                     \
           VALUES(NAME("halt", false), NAME("reset", true)),                                       \
           "What follows the report of a fault in root mode. reset: a countdown, and a reset of "  \
           "the machine. The next start writes the log to pmuvisor.log in either case.")           \
    OPTION(start, CHOICE, start, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),  \
           "off writes what the last run left in memory to pmuvisor.log, and goes back.")          \
    OPTION(pmu, CHOICE, pmu, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),      \
           "off starts on a processor without an architectural PMU, and hides one that is there. " \
           "LBRs and IA32_DEBUGCTL belong to debugging and stay.")                                 \
    OPTION(                                                                                        \
        pt, CHOICE, pt, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),           \
        "Intel PT for the guest, where VMX has all that keeps root mode out of its traces. off "   \
        "hides it.")                                                                               \
    OPTION(hypervisor_bit, CHOICE, hypervisor_bit, true, "on or off",                              \
           VALUES(NAME("on", true), NAME("off", false)),                                           \
           "CPUID.1:ECX[31]. off: Linux takes the machine for a bare one, and does all that it "   \
           "does there. The leaves from 40000000H on stay, and name PMUvisor.")                    \
    OPTION(stats, CHOICE, stats_cycles, false, "counts or cycles",                                 \
           VALUES(NAME("counts", false), NAME("cycles", true)),                                    \
           "What is kept of exits, by reason. cycles reads the TSC around each exit, which costs " \
           "something itself.")                                                                    \
    OPTION(tick, NUMBER, tick_ms, TICK_DEFAULT_MS, "milliseconds from 0 (no tick) to 10000",       \
           VALUES(NAME(NULL, TICK_MAX_MS)),                                                        \
           "An exit after so many milliseconds without one. It bounds how late a host NMI is "     \
           "found that the guest took. 0: no tick, as in every measurement. With a tick MONITOR "  \
           "and MWAIT are hidden; where reads of I/O ports reach deep C-states too, a line says "  \
           "that the tick has no bound there.")                                                    \
    OPTION(processors, NUMBER, processors, 0, "a number up to 512, 0 for all",                     \
           VALUES(NAME(NULL, PROCESSORS_MAX)),                                                     \
           "How many processors the guest has at most, the first of the MADT. The others are "     \
           "hidden, and wait in VMX root operation. 0: all.")                                      \
    OPTION(vtd, CHOICE, vtd, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),      \
           "off leaves VT-d alone: DMA is not contained then, and the guest has the units.")       \
    OPTION(user_hypercalls, CHOICE, user_hypercalls, false, "0 or 1",                              \
           VALUES(NAME("0", false), NAME("1", true)),                                              \
           "1: VMCALL is served at CPL 1 to 3 as well.")                                           \
    OPTION(unblock, CHOICE, unblock_lazy, false, "eager or lazy",                                  \
           VALUES(NAME("eager", false), NAME("lazy", true)),                                       \
           "When root mode takes NMIs again after an exit inside the guest's NMI handler. eager: " \
           "at each such exit. lazy: before host work alone; such an exit is shorter, and a host " \
           "NMI is found after the handler's end.")                                                \
    OPTION(platform_nmi, CHOICE, platform_nmi_host, false, "guest or host",                        \
           VALUES(NAME("guest", false), NAME("host", true)),                                       \
           "Whose NMIs SERR and IOCHK are. host: the hypervisor answers them, and port 0x61 is "   \
           "trapped.")                                                                             \
    OPTION(mitigations, CHOICE, mitigations_off, false, "auto or off",                             \
           VALUES(NAME("auto", false), NAME("off", true)),                                         \
           "auto does at exits and entries what this processor says that root mode needs against " \
           "speculative execution. off: nothing, as in every measurement.")                        \
    OPTION(bookkeeping, STEPS, bookkeeping, BOOKKEEPING_ALL,                                       \
           "all, none, or some of lost,skid,unblock,mask",                                         \
           VALUES(NAME("lost", BOOKKEEPING_LOST), NAME("skid", BOOKKEEPING_SKID),                  \
                  NAME("unblock", BOOKKEEPING_UNBLOCK), NAME("mask", BOOKKEEPING_MASK),            \
                  NAME("all", BOOKKEEPING_ALL), NAME("none", 0)),                                  \
           "The steps of NMI bookkeeping that are done; several are separated by commas. Without " \
           "one NMIs may be lost or misrouted: leave one out to price it, or to see the loss.")
