// SPDX-License-Identifier: BSD-2-Clause
//
// The parser of the knobs file: one knob a line, a name and its values, `#` starts a comment.
#include "knobs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#define PART(name, begins, wanted) const char *wanted(const std::string &value);
#include "parts.inc"
#undef PART

namespace {

Knobs current;

bool parse_number(const std::string &text, uint64_t max, uint64_t *number)
{
    char *end = nullptr;

    if (text.empty() || text[0] < '0' || text[0] > '9')
        return false;
    *number = std::strtoull(text.c_str(), &end, 0);
    return *end == '\0' && *number <= max;
}

bool parse_unsigned(const std::string &text, unsigned *number)
{
    uint64_t value;

    if (!parse_number(text, UINT32_MAX, &value))
        return false;
    *number = static_cast<unsigned>(value);
    return true;
}

// "12", "sweep", or "sweep/12" (from 1 again after 12).
bool parse_position(const std::string &text, NmiSchedule *schedule)
{
    const std::string sweep = "sweep";

    schedule->sweep = text.compare(0, sweep.size(), sweep) == 0;
    if (!schedule->sweep)
        return parse_number(text, UINT64_MAX, &schedule->position) && schedule->position >= 1;
    if (text == sweep)
        return true;
    return text[sweep.size()] == '/' &&
           parse_number(text.substr(sweep.size() + 1), UINT64_MAX, &schedule->wrap) &&
           schedule->wrap >= 1;
}

// "12", or "sweep/12" (0 to 11 in turn).
bool parse_skid(const std::string &text, Knobs *knobs)
{
    const std::string sweep = "sweep/";

    if (text.compare(0, sweep.size(), sweep) != 0)
        return parse_unsigned(text, &knobs->pmi_skid);
    return parse_unsigned(text.substr(sweep.size()), &knobs->pmi_skids) && knobs->pmi_skids >= 1;
}

// "62" or "none".
bool parse_pmi_status(const std::string &text, Knobs *knobs)
{
    knobs->pmi_status = PMI_STATUS_NONE;
    return text == "none" ||
           (parse_unsigned(text, &knobs->pmi_status) && knobs->pmi_status < PMI_STATUS_OWN);
}

// The `key=value` words of an NMI schedule, and `host`.
bool parse_schedule(std::istream &words, bool root, NmiSchedule *schedule)
{
    std::map<std::string, std::string> given;
    std::string word;

    while (words >> word) {
        size_t equals = word.find('=');
        if (word == "host") {
            schedule->host = true;
            continue;
        }
        if (equals == std::string::npos)
            return false;
        given[word.substr(0, equals)] = word.substr(equals + 1);
    }
    schedule->root = root;
    if (given.size() != (root ? 3u : 2u))
        return false;
    if (root && !parse_unsigned(given["reason"], &schedule->reason))
        return false;
    return knob_range(given[root ? "exits" : "nmis"], &schedule->first, &schedule->last) &&
           parse_position(given["position"], schedule);
}

bool parse_choice(const std::string &text, const std::vector<std::string> &choices,
                  unsigned *choice)
{
    for (*choice = 0; *choice < choices.size(); ++*choice)
        if (choices[*choice] == text)
            return true;
    return false;
}

// INDEX VALUE
bool parse_msr(std::istream &words, ExtraMsr *msr)
{
    std::string index, value;
    uint64_t number;

    if (!(words >> index >> value) || !parse_number(index, UINT32_MAX, &number))
        return false;
    msr->index = static_cast<uint32_t>(number);
    return parse_number(value, UINT64_MAX, &msr->reset) && !(words >> value);
}

// LEAF SUBLEAF eax|ebx|ecx|edx BITS
bool parse_cpuid(std::istream &words, ExtraCpuid *extra)
{
    std::string leaf, subleaf, reg, bits;

    return words >> leaf >> subleaf >> reg >> bits && parse_unsigned(leaf, &extra->leaf) &&
           parse_unsigned(subleaf, &extra->subleaf) &&
           parse_choice(reg, {"eax", "ebx", "ecx", "edx"}, &extra->reg) &&
           parse_unsigned(bits, &extra->bits) && !(words >> bits);
}

// The counters from 0 on without a gap.
bool contiguous(uint32_t mask) { return (mask & (mask + 1)) == 0; }

// pmu_version, pmu_general_mask, pmu_fixed_mask, pmu_fixed_ctrl. Null if good, else what is wanted.
const char *parse_pmu(const std::string &name, const std::string &value, PmuShape *shape)
{
    if (name == "pmu_version")
        return parse_unsigned(value, &shape->version) && shape->version >= PMU_VERSION_LEAST &&
                       shape->version <= PMU_VERSION_LEAF_23H
                   ? nullptr
                   : "3, 4, 5 or 6";
    if (name == "pmu_fixed_ctrl")
        return parse_unsigned(value, &shape->fixed_ctrl) ? nullptr
                                                         : "a value of IA32_FIXED_CTR_CTRL";
    unsigned most = name == "pmu_general_mask" ? PMU_GENERAL_MAX : PMU_FIXED_MAX;
    unsigned mask;
    if (!parse_unsigned(value, &mask) || mask >> most != 0)
        return "a mask of at most 16 counters";
    (name == "pmu_general_mask" ? shape->general : shape->fixed) = mask;
    return nullptr;
}

// "40,39,38": falling, and none of them 0.
bool parse_ratios(const std::string &text, std::vector<unsigned> *ratios)
{
    std::istringstream list(text);
    std::string one;

    ratios->clear();
    while (std::getline(list, one, ',')) {
        unsigned ratio;
        if (!parse_unsigned(one, &ratio) || ratio == 0 || ratio > RATIO_MAX ||
            (!ratios->empty() && ratio > ratios->back()))
            return false;
        ratios->push_back(ratio);
    }
    return !ratios->empty() && ratios->size() <= TURBO_RATIOS_MAX && text.back() != ',';
}

// What no processor of that version could say of itself. Null if there is nothing.
const char *pmu_impossible(const PmuShape &shape)
{
    if (shape.version < PMU_VERSION_LEAF_23H &&
        (!contiguous(shape.general) || shape.general >> PMU_GENERAL_LEGACY != 0))
        return "pmu_general_mask without gaps and within 0x3ff, or pmu_version 6";
    if (shape.version < PMU_VERSION_FIXED_MASK && !contiguous(shape.fixed))
        return "pmu_fixed_mask without gaps, or pmu_version 5";
    return nullptr;
}

const char *parse_switch(const std::string &value, bool *on)
{
    unsigned choice;

    if (!parse_choice(value, {"off", "on"}, &choice))
        return "on or off";
    *on = choice == 1;
    return nullptr;
}

struct PartKnob {
    const char *name;
    PartBegins begins;
    const char *(*wanted)(const std::string &value);
};

const std::vector<PartKnob> part_knobs = {
#define PART(name, begins, wanted) {#name, begins, wanted},
#include "parts.inc"
#undef PART
};

const PartKnob *part_knob(const std::string &name)
{
    for (const PartKnob &part : part_knobs)
        if (name == part.name)
            return &part;
    return nullptr;
}

// Knobs that nothing asks for before the machine first reads its disk: firmware uses no VMX and no
// PMU. machine.py has the same list.
bool is_late(const std::string &name)
{
    for (const char *late :
         {"allow_resets", "cpuid",          "exit_lines",   "exit_paths",  "feature_control",
          "guest_files",  "hide_control",   "hide_cpuid",   "hide_msr",    "mov_ss_ignored",
          "msr",          "nmi_handler",    "nmi_root",     "pebs",        "pebs_late",
          "platform",     "pmi_skid",       "pmu",          "pt",          "pt_overflow",
          "ratios",       "regions_of_all", "reset_button", "unknown_msrs"})
        if (name == late)
            return true;
    return part_knob(name) != nullptr;
}

// Knobs of files of which nothing is written before the guest's init asks for its words.
bool is_after_init(const std::string &name)
{
    const PartKnob *part = part_knob(name);

    return name == "guest_files" || (part && part->begins == AFTER_INIT);
}

// The names of all knobs, with those of parts before them.
const char *every_name(const char *others)
{
    static std::string all;

    all.clear();
    for (const PartKnob &part : part_knobs)
        all += std::string(part.name) + ", ";
    return (all += others).c_str();
}

// Reads the values of one knob. Null if they are good, else what is wanted.
const char *parse_knob(const std::string &name, std::istream &words, Knobs *knobs)
{
    std::string value, rest;
    unsigned choice;

    if (name == "nmi_root" || name == "nmi_handler") {
        NmiSchedule schedule;
        bool root = name == "nmi_root";
        if (!parse_schedule(words, root, &schedule))
            return root ? "reason=R exits=N[-M] position=K|sweep[/K] [host]"
                        : "nmis=N[-M] position=K|sweep[/K] [host]";
        knobs->nmi_schedules.push_back(schedule);
        return nullptr;
    }
    if (name == "msr") {
        ExtraMsr msr;
        if (!parse_msr(words, &msr))
            return "INDEX VALUE";
        knobs->msrs.push_back(msr);
        return nullptr;
    }
    if (name == "cpuid" || name == "hide_cpuid") {
        ExtraCpuid extra;
        if (!parse_cpuid(words, &extra))
            return "LEAF SUBLEAF eax|ebx|ecx|edx BITS";
        (name == "cpuid" ? knobs->cpuid : knobs->hide_cpuid).push_back(extra);
        return nullptr;
    }
    if (name == "pt_overflow") {
        std::string branches;
        words >> value >> branches;
        return parse_unsigned(value, &knobs->pt_overflow_every) &&
                       parse_unsigned(branches, &knobs->pt_overflow_branches) &&
                       knobs->pt_overflow_every > 0 && knobs->pt_overflow_branches > 0
                   ? nullptr
                   : "BYTES BRANCHES";
    }
    if (const PartKnob *part = part_knob(name)) {
        std::getline(words >> std::ws, value);
        knobs->parts[name] = value;
        return part->wanted(value);
    }
    if (name == "guest_files")
        return std::getline(words >> std::ws, knobs->guest_files) ? nullptr : "FOLDER";
    words >> value;
    if (name == "reset_button") {
        std::getline(words >> std::ws, knobs->reset_text);
        return parse_unsigned(value, &knobs->reset_after) && !knobs->reset_text.empty()
                   ? nullptr
                   : "MILLIONS TEXT";
    }
    if (words >> rest)
        return "one value";
    if (name == "allow_resets")
        return parse_unsigned(value, &knobs->allow_resets) ? nullptr : "a number";
    if (name == "pmi_skid")
        return parse_skid(value, knobs) ? nullptr : "a number of instructions, or sweep/L";
    if (name == "pmi_status")
        return parse_pmi_status(value, knobs) ? nullptr : "a bit's number, or none";
    if (name == "mwait_wake")  // run.sh leaves MWAIT to several processors then
        return parse_unsigned(value, &knobs->mwait_wake) ? nullptr : "a number of ticks";
    if (name == "pebs") {
        if (!parse_choice(value, {"off", "3", "4"}, &choice))
            return "off, 3 or 4";
        knobs->pebs = choice == 0   ? PEBS_OFF
                      : choice == 1 ? PEBS_FORMAT_SKYLAKE
                                    : PEBS_FORMAT_ADAPTIVE;
        return nullptr;
    }
    if (name == "pt") {
        if (!parse_choice(value, {"off", "on", "ptwrite"}, &choice))
            return "off, on or ptwrite";
        knobs->pt = static_cast<PtKnob>(choice);
        return nullptr;
    }
    if (name == "pebs_late")
        return parse_unsigned(value, &knobs->pebs_late) ? nullptr : "a number of instructions";
    if (name == "tsc_hz")
        return parse_unsigned(value, &knobs->tsc_hz) ? nullptr : "a frequency in Hz, or 0";
    if (name == "platform")
        return parse_switch(value, &knobs->platform.on);
    if (name == "ratios")
        return parse_ratios(value, &knobs->platform.ratios) ? nullptr
                                                            : "up to 8 falling ratios of 1 to 255";
    if (name == "pmu")
        return parse_switch(value, &knobs->pmu);
    if (name == "arch_lbr")
        return parse_switch(value, &knobs->arch_lbr);
    if (name == "pmu_version" || name == "pmu_general_mask" || name == "pmu_fixed_mask" ||
        name == "pmu_fixed_ctrl")
        return parse_pmu(name, value, &knobs->pmu_shape);
    if (name == "mov_ss_ignored")
        return parse_switch(value, &knobs->mov_ss_ignored);
    if (name == "exit_lines")
        return parse_switch(value, &knobs->exit_lines);
    if (name == "exit_paths")
        return parse_switch(value, &knobs->exit_paths);
    if (name == "regions_of_all")
        return parse_switch(value, &knobs->regions_of_all);
    if (name == "unknown_msrs") {
        if (!parse_choice(value, {"ignore", "fault"}, &choice))
            return "fault or ignore";
        knobs->unknown_msrs_fault = choice == 1;
        return nullptr;
    }
    if (name == "feature_control") {
        if (!parse_choice(value, {"unlocked", "locked_off", "locked_on"}, &choice))
            return "unlocked, locked_off or locked_on";
        knobs->feature_control = static_cast<FeatureControl>(choice);
        return nullptr;
    }
    // run.sh hands this one to Bochs, which knows the names.
    if (name == "hide_feature")
        return value.empty() ? "the name of a processor feature" : nullptr;
    if (name == "hide_msr") {
        uint64_t index;
        if (!parse_number(value, UINT32_MAX, &index))
            return "INDEX";
        knobs->hide_msrs.push_back(static_cast<uint32_t>(index));
        return nullptr;
    }
    if (name == "hide_control" || name == "show_control") {
        if (value.empty())
            return "the name of a VMX control";
        (name == "hide_control" ? knobs->hide_controls : knobs->show_controls).push_back(value);
        return nullptr;
    }
    return every_name(
        "allow_resets, arch_lbr, cpuid, exit_lines, exit_paths, feature_control, guest_files, "
        "hide_control, hide_cpuid, hide_feature, hide_msr, mov_ss_ignored, msr, "
        "mwait_wake, nmi_handler, nmi_root, pebs, pebs_late, platform, pmi_skid, "
        "pmi_status, pmu, pmu_fixed_ctrl, pmu_fixed_mask, pmu_general_mask, "
        "pmu_version, pt, pt_overflow, ratios, regions_of_all, reset_button, "
        "show_control, tsc_hz or unknown_msrs");
}

}  // namespace

bool knob_range(const std::string &text, uint64_t *first, uint64_t *last)
{
    size_t dash = text.find('-');

    if (!parse_number(text.substr(0, dash), UINT64_MAX, first))
        return false;
    *last = *first;
    return (dash == std::string::npos || parse_number(text.substr(dash + 1), UINT64_MAX, last)) &&
           *first >= 1 && *last >= *first;
}

const char *path_wanted(const std::string &value) { return value.empty() ? "PATH" : nullptr; }

bool knobs_parse(std::istream &in, Knobs *knobs, std::string *error)
{
    std::string line;

    for (unsigned number = 1; std::getline(in, line); number++) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string name;
        if (!(words >> name))
            continue;
        const char *wanted = parse_knob(name, words, knobs);
        if (!wanted) {
            if (!is_late(name))
                knobs->machine += line + "\n";
            if (!is_after_init(name))
                knobs->before_init += line + "\n";
            continue;
        }
        std::ostringstream text;
        text << "knob in line " << number << ": found '" << line << "', wanted " << wanted;
        *error = text.str();
        return false;
    }
    if (const char *wanted = pmu_impossible(knobs->pmu_shape)) {
        *error = std::string("knobs of the PMU: wanted ") + wanted;
        return false;
    }
    if (knobs->tsc_hz != 0)
        knobs->platform.ratio = std::clamp(knobs->tsc_hz / RATIO_HZ, 1u, RATIO_MAX);
    if (!knobs->platform.ratios.empty() && !knobs->platform.on) {
        *error = "knob ratios: wanted platform on";
        return false;
    }
    return true;
}

void knobs_init()
{
    const char *path = std::getenv("TB_KNOBS");
    std::string error;

    if (!path)
        return;
    std::ifstream file(path);
    if (!file)
        error = "cannot read the knobs";
    if (!error.empty() || !knobs_parse(file, &current, &error)) {
        std::fprintf(stderr, "testbed: %s: %s\n", path, error.c_str());
        std::exit(EXIT_FAILURE);
    }
}

void knobs_reread(bool at_init)
{
    Knobs servers = current;

    current = Knobs();
    knobs_init();
    if (at_init ? current.before_init == servers.before_init : current.machine == servers.machine)
        return;
    std::fprintf(stderr, "testbed: the knobs want another machine than the server has%s\n",
                 at_init ? ": at init all have to be the server's" : "");
    std::exit(EXIT_FAILURE);
}

const Knobs &knobs() { return current; }

const char *knobs_with_kernel()
{
    for (const PartKnob &part : part_knobs)
        if (part.begins == WITH_KERNEL && current.parts.count(part.name) > 0)
            return part.name;
    return nullptr;
}
