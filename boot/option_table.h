/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One row for each option of pmuvisor.cfg and of the load options. The parser (boot/options.c) and
 * the pages docs/options.md and docs/pmuvisor.7 (docs/options.py) are made from this table. The
 * help is for the pages only and is not part of the image. Each experiment has its own table.
 *
 * OPTION(key, kind, field, initial, wanted, values, help)
 *   key      the name as the user writes it
 *   kind     enum option_kind of options.h
 *   field    the member of struct options
 *   initial  the default value of the field; {0}: empty text
 *   wanted   the valid values, as an error message names them; NULL: the text may be empty
 *   values   VALUES(NAME("as written", value), ...); for a NUMBER only its largest value
 *   help     sentences for the user
 * Code that expands OPTIONS must define VALUES and NAME, too.
 */
#pragma once

#define OPTIONS(OPTION)                                                                            \
    OPTION(                                                                                        \
        policy, CHOICE, policy, POLICY_MSR_NMI,                                                    \
        "intercept, msr or msr+nmi, or an experiment's that a pmuvisor-lab.efi has",               \
        VALUES(NAME("intercept", POLICY_INTERCEPT), NAME("msr", POLICY_MSR),                       \
               NAME("msr+nmi", POLICY_MSR_NMI)),                                                   \
        "Selects the events that exit. intercept: each access to the PMU and to branch records "   \
        "(LBRs), and NMIs. msr: only NMIs. msr+nmi: none of these; the guest has the PMU and "     \
        "takes its own NMIs. An experiment may add a policy, which the page of the experiment "    \
        "describes.")                                                                              \
    OPTION(apic, CHOICE, apic_trap, false, "pass or trap",                                         \
           VALUES(NAME("pass", false), NAME("trap", true)),                                        \
           "trap: each access to the local APIC exits, as in the thesis. pass: no access exits.")  \
    OPTION(kernel, TEXT, kernel, "vmlinuz", "the path of a kernel", VALUES(NAME(NULL, 0)),         \
           "The guest's kernel: a path on the image's volume, with / or \\. A path that does not " \
           "begin with / or \\ starts in the image's folder.")                                     \
    OPTION(initrd, TEXT, initrd, "initrd.img", NULL, VALUES(NAME(NULL, 0)),                        \
           "The guest's initramfs: a path like that of kernel=. Empty: no initramfs.")             \
    OPTION(append, REST, append, {0}, NULL, VALUES(NAME(NULL, 0)),                                 \
           "The kernel's command line. This option takes the rest of its line, so it must come "   \
           "last.")                                                                                \
    OPTION(console, PORT, console, CONSOLE_AUTO,                                                   \
           "auto, com1, com2, none or an I/O port such as 0x3e8",                                  \
           VALUES(NAME("auto", CONSOLE_AUTO), NAME("com1", SERIAL_COM1),                           \
                  NAME("com2", SERIAL_COM2), NAME("none", CONSOLE_NONE)),                          \
           "The serial port for output: a 16550, set to 115200 8N1. Until the guest starts, "      \
           "output also goes to the screen. auto: the port that ACPI's table SPCR names, at the "  \
           "table's rate, else com1.")                                                             \
    OPTION(wait, NUMBER, wait_s, WAIT_DEFAULT_S, "seconds from 0 to 3600",                         \
           VALUES(NAME(NULL, WAIT_MAX_S)),                                                         \
           "If PMUvisor refuses to start, the reason stays on the screen for this number of "      \
           "seconds, or until a key is pressed. With fault=reset, a fault's report stays for "     \
           "the same number of seconds. Without a screen, a refusal does not wait.")               \
    OPTION(fault, CHOICE, fault_reset, false, "halt or reset",                                     \
           VALUES(NAME("halt", false), NAME("reset", true)),                                       \
           "What PMUvisor does after the report of a fault in root mode. reset: a countdown, "     \
           "then a reset of the machine. In either case, the next start writes the log to "        \
           "pmuvisor.log.")                                                                        \
    OPTION(start, CHOICE, start, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),  \
           "off: PMUvisor writes the log of the last run, which is still in memory, to "           \
           "pmuvisor.log. PMUvisor then returns to firmware or the boot menu.")                    \
    OPTION(pmu, CHOICE, pmu, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),      \
           "off: PMUvisor also starts on a processor without an architectural PMU, and hides an "  \
           "existing PMU. LBRs and IA32_DEBUGCTL belong to debugging and stay visible.")           \
    OPTION(pt, CHOICE, pt, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),        \
           "on: the guest has Intel PT if VMX has all controls that keep root mode out of the "    \
           "guest's traces. off hides Intel PT.")                                                  \
    OPTION(hypervisor_bit, CHOICE, hypervisor_bit, true, "on or off",                              \
           VALUES(NAME("on", true), NAME("off", false)),                                           \
           "CPUID.1:ECX[31]. off: Linux takes the machine for a bare machine, and behaves as on "  \
           "a bare machine. The leaves from 40000000H on stay, and name PMUvisor.")                \
    OPTION(stats, CHOICE, stats_cycles, false, "counts or cycles",                                 \
           VALUES(NAME("counts", false), NAME("cycles", true)),                                    \
           "What PMUvisor records about exits, by reason. cycles reads the TSC around each exit, " \
           "and this also costs time.")                                                            \
    OPTION(tick, NUMBER, tick_ms, TICK_DEFAULT_MS, "milliseconds from 0 (no tick) to 10000",       \
           VALUES(NAME(NULL, TICK_MAX_MS)),                                                        \
           "If the guest runs for this number of milliseconds without an exit, PMUvisor forces "   \
           "an exit, and finds any host NMI that the guest took. 0: no tick, as in every "         \
           "measurement. A tick hides MONITOR and MWAIT, because deep C-states stop the tick. On " \
           "some machines, a read of an I/O port can enter a deep C-state, too. There, the log "   \
           "says that the time until an exit has no bound.")                                       \
    OPTION(processors, NUMBER, processors, 0, "a number up to 512, 0 for all",                     \
           VALUES(NAME(NULL, PROCESSORS_MAX)),                                                     \
           "The maximum number of processors that the guest has. The guest gets the first "        \
           "processors of the MADT. The others are hidden, and wait in VMX root operation. 0: "    \
           "all.")                                                                                 \
    OPTION(vtd, CHOICE, vtd, true, "on or off", VALUES(NAME("off", false), NAME("on", true)),      \
           "off: PMUvisor does not touch VT-d. Then DMA is not contained, and the guest has the "  \
           "VT-d units.")                                                                          \
    OPTION(user_hypercalls, CHOICE, user_hypercalls, false, "0 or 1",                              \
           VALUES(NAME("0", false), NAME("1", true)),                                              \
           "1: PMUvisor also serves VMCALL at CPL 1 to 3.")                                        \
    OPTION(unblock, CHOICE, unblock_lazy, false, "eager or lazy",                                  \
           VALUES(NAME("eager", false), NAME("lazy", true)),                                       \
           "Selects when root mode unblocks NMIs after an exit inside the guest's NMI handler. "   \
           "eager: at each exit of this kind. lazy: only before host work. With lazy these exits " \
           "are shorter, but PMUvisor finds a host NMI only after the handler ends.")              \
    OPTION(platform_nmi, CHOICE, platform_nmi_host, false, "guest or host",                        \
           VALUES(NAME("guest", false), NAME("host", true)),                                       \
           "Who gets the NMIs of SERR and IOCHK. host: the hypervisor answers these NMIs, and "    \
           "traps port 0x61.")                                                                     \
    OPTION(mitigations, CHOICE, mitigations_off, false, "auto or off",                             \
           VALUES(NAME("auto", false), NAME("off", true)),                                         \
           "auto: at exits and entries, PMUvisor applies the mitigations of speculative "          \
           "execution that root mode needs on this processor. off: no mitigations, as in every "   \
           "measurement.")                                                                         \
    OPTION(bookkeeping, STEPS, bookkeeping, BOOKKEEPING_ALL,                                       \
           "all, none, or some of lost,skid,unblock,mask",                                         \
           VALUES(NAME("lost", BOOKKEEPING_LOST), NAME("skid", BOOKKEEPING_SKID),                  \
                  NAME("unblock", BOOKKEEPING_UNBLOCK), NAME("mask", BOOKKEEPING_MASK),            \
                  NAME("all", BOOKKEEPING_ALL), NAME("none", 0)),                                  \
           "The steps of NMI bookkeeping that PMUvisor performs, separated by commas. Without a "  \
           "step, NMIs may be lost or misrouted. Leave a step out to measure its cost, or to see " \
           "the loss.")
