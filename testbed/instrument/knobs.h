/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The knobs: what a test may ask of the machine, read once from the text file that TB_KNOBS names.
 * Format and meaning: README.md, "Knobs". Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "inject.h"
#include "noise.h"
#include "pebs.h"
#include "platform.h"
#include "pmu.h"

enum FeatureControl {
    FEATURE_CONTROL_UNLOCKED,
    FEATURE_CONTROL_LOCKED_OFF,
    FEATURE_CONTROL_LOCKED_ON
};

/* An MSR that the model does not have: any value can be written, and read again. */
struct ExtraMsr {
    uint32_t index;
    uint64_t reset;
};

/* A line that is for one processor alone. */
struct OwnKnob {
    unsigned processor;
    std::string line;
};

/* Bits that CPUID shows in addition, or does not show. */
struct ExtraCpuid {
    uint32_t leaf, subleaf;
    unsigned reg; /* 0 EAX, 1 EBX, 2 ECX, 3 EDX */
    uint32_t bits;
};

/* Intel PT. */
enum PtKnob { PT_OFF, PT_ON, PT_WITH_PTWRITE };

/* Knobs::pmi_status beside a bit's number */
constexpr unsigned PMI_STATUS_OWN = 64;
constexpr unsigned PMI_STATUS_NONE = 65;

/* When a knob acts first. A run that a server forks has to have the server's own knobs of the time
 * before. */
enum KnobActs {
    EARLY,       /* as the machine begins */
    LATE,        /* not before the machine first reads its disk: firmware asks for nothing of it */
    WITH_KERNEL, /* a file of it begins with the kernel, or later: not for a server at init */
    AFTER_INIT   /* not before the guest's init asks for its words */
};

struct Knobs {
    /* Hardware resets after power-on that do not end the run. */
    unsigned allow_resets = 0;
    /* A text on COM1 (empty: none), and after how many millions of ticks the button is pressed. */
    std::string reset_text;
    unsigned reset_after = 0;
    /* Instructions from a counter's overflow to its PMI. */
    unsigned pmi_skid = 0;
    /* Not 0: skids 0 to this less 1 in turn, instead. */
    unsigned pmi_skids = 0;
    /* Bit of GLOBAL_STATUS that an overflow sets: the counter's own, another one, or none. */
    unsigned pmi_status = PMI_STATUS_OWN;
    /* The processor has a PMU, and which counters. */
    bool pmu = true;
    PmuShape pmu_shape;
    /* It has the package's registers. */
    PlatformShape platform;
    /* Its branch records are the architectural ones. */
    unsigned arch_lbr = 0; /* how many at most; 0: they are not */
    /* PEBS and BTS; and how many instructions late a record is stored, wherever that is then. */
    PebsFormat pebs = PEBS_OFF;
    unsigned pebs_late = 0;
    PtKnob pt = PT_OFF;
    /* After so many bytes of trace so many branches are lost; 0: none are. */
    unsigned pt_overflow_every = 0;
    unsigned pt_overflow_branches = 0;
    /* What CPUID says that the TSC runs at; 0 leaves the model's own answer. */
    uint32_t tsc_hz = 0;
    /* It runs as that of a machine that is not quiet. */
    NoiseShape noise;
    /* IA32_FEATURE_CONTROL as the firmware finds it. */
    FeatureControl feature_control = FEATURE_CONTROL_UNLOCKED;
    /* Not 0: there is MWAIT with several processors too, and a guest's processor asleep in one
     * takes so many ticks of the clock to wake up for an INIT. */
    unsigned mwait_wake = 0;
    /* An MSR that does not exist faults once the firmware is done. */
    bool unknown_msrs_fault = true;
    /* A VM entry drops the blocking by MOV SS that it is to load. */
    bool mov_ss_ignored = false;
    /* The ledger says which cache lines root mode touches in an exit. */
    bool exit_lines = false;
    /* And which instructions it executes there. */
    bool exit_paths = false;
    /* A region of the ledger is of all processors, not of the one that marks it. */
    bool regions_of_all = false;
    /* The folder of the files that the guest hands over; empty: it hands over none. */
    std::string guest_files;
    /* Values of the parts' knobs (part.h) that are given. */
    std::map<std::string, std::string> parts;
    /* VMX controls taken away, and given although the real processor lacks them. */
    std::vector<std::string> hide_controls;
    std::vector<std::string> show_controls;
    std::vector<NmiSchedule> nmi_schedules;
    /* The lines that act before a server forks: a child must have the same. And those that a child
     * must have where the server waits at init: all but those of files that begin later. */
    std::string machine;
    std::string before_init;
    std::vector<ExtraMsr> msrs;
    /* Those that the model has and this processor has not. */
    std::vector<uint32_t> hide_msrs;
    std::vector<ExtraCpuid> cpuid, hide_cpuid;
    /* Lines of the knobs above, from the PMU on, that only one processor has. */
    std::vector<OwnKnob> own;
};

/* Reads "3" or "3-9"; an open end is not offered because a sweep has to end. */
bool knob_range(const std::string &text, uint64_t *first, uint64_t *last);

/* What a part's knob wants whose value is a file; null: that is it. */
const char *path_wanted(const std::string &value);

/* Reads knobs. False: `error` says which line is wrong, what was found and what is wanted. */
bool knobs_parse(std::istream &in, Knobs *knobs, std::string *error);

/* Reads the file that TB_KNOBS names, if it names one. An error ends the program with one line. */
void knobs_init();

/* The same in the child of a server, with its own file; the machine must stay as it is, and one
 * that has come to the guest's init must have been the same. */
void knobs_reread(bool at_init);

const Knobs &knobs();

/* The same with the lines that are this processor's own. */
Knobs knobs_of(const Knobs &all, unsigned processor);

/* A knob that is given, of a part whose file begins with the kernel; null: none. */
const char *knobs_with_kernel();
