// SPDX-License-Identifier: BSD-2-Clause
//
// The parser of the knobs file: one knob a line, a name and its values, `#` starts a comment.
#include "knobs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#define PART(name, acts, wanted) const char *wanted(const std::string &value);
#include "parts.inc"
#undef PART

namespace {

using Words = std::istream;

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

// The only word; empty: there is none, or another one follows.
std::string only(Words &words)
{
    std::string word, more;

    words >> word;
    return words >> more ? "" : word;
}

std::string rest_of(Words &words)
{
    std::string rest;

    std::getline(words >> std::ws, rest);
    return rest;
}

// "12", or "sweep/12" (0 to 11 in turn).
bool parse_skid(Words &words, Knobs *knobs)
{
    const std::string sweep = "sweep/", text = only(words);

    if (text.compare(0, sweep.size(), sweep) != 0)
        return parse_unsigned(text, &knobs->pmi_skid);
    return parse_unsigned(text.substr(sweep.size()), &knobs->pmi_skids) && knobs->pmi_skids >= 1;
}

// "62" or "none".
bool parse_pmi_status(Words &words, Knobs *knobs)
{
    const std::string text = only(words);

    knobs->pmi_status = PMI_STATUS_NONE;
    return text == "none" ||
           (parse_unsigned(text, &knobs->pmi_status) && knobs->pmi_status < PMI_STATUS_OWN);
}

// The `key=value` words of an NMI schedule, `host`, and in root mode `unblocked`.
bool parse_schedule(Words &words, bool root, Knobs *knobs)
{
    NmiSchedule schedule;
    std::map<std::string, std::string> given;
    std::string word;

    while (words >> word) {
        size_t equals = word.find('=');
        if (word == "host") {
            schedule.host = true;
            continue;
        }
        if (word == "unblocked" && root) {
            schedule.unblocked = true;
            continue;
        }
        if (equals == std::string::npos)
            return false;
        given[word.substr(0, equals)] = word.substr(equals + 1);
    }
    schedule.root = root;
    if (given.size() != (root ? 3u : 2u))
        return false;
    if (root && !parse_unsigned(given["reason"], &schedule.reason))
        return false;
    if (!knob_range(given[root ? "exits" : "nmis"], &schedule.first, &schedule.last) ||
        !parse_position(given["position"], &schedule))
        return false;
    knobs->nmi_schedules.push_back(schedule);
    return true;
}

// KEY=VALUE of a noisy clock, `seed` among them.
bool parse_noise(Words &words, NoiseShape *noise)
{
    const std::map<std::string, unsigned NoiseShape::*> rates = {{"jitter", &NoiseShape::jitter},
                                                                 {"drift", &NoiseShape::drift},
                                                                 {"slow", &NoiseShape::slow},
                                                                 {"smi", &NoiseShape::smi}};
    std::string word;

    while (words >> word) {
        std::string name = word.substr(0, word.find('=')), value = word.substr(name.size());
        auto rate = rates.find(name);
        value.erase(0, 1);
        if (name == "seed") {
            if (!parse_number(value, UINT64_MAX, &noise->seed))
                return false;
            noise->on = true;
        } else if (name == "since") {
            if (!parse_number(value, UINT32_MAX * DRIFT_TICKS, &noise->since))
                return false;
        } else if (rate == rates.end() || !parse_unsigned(value, &(noise->*rate->second))) {
            return false;
        }
    }
    return noise->on && (noise->smi == 0 || noise->smi >= NOISE_BLOCK);
}

const char *parse_line(Words &words, const std::string &name, Knobs *knobs);

// N KNOB VALUES, of a knob that makes the processor and nothing else.
bool parse_own(Words &words, Knobs *knobs)
{
    static const std::set<std::string> possible = {
        "arch_lbr",       "cpuid",          "hide_cpuid",       "hide_msr",    "msr",        "pebs",
        "pmu_fixed_ctrl", "pmu_fixed_mask", "pmu_general_mask", "pmu_metrics", "pmu_version"};
    Knobs trial;
    OwnKnob own;
    std::string number, name;

    words >> number;
    own.line = rest_of(words);
    std::istringstream line(own.line);
    line >> name;
    knobs->own.push_back(own);
    return parse_unsigned(number, &knobs->own.back().processor) && possible.count(name) > 0 &&
           parse_line(line, name, &trial) == nullptr;
}

template<typename Value>
bool choose(const std::string &text, const std::map<std::string, Value> &choices, Value *value)
{
    auto found = choices.find(text);

    if (found == choices.end())
        return false;
    *value = found->second;
    return true;
}

bool parse_switch(Words &words, bool *on)
{
    return choose(only(words), {{"off", false}, {"on", true}}, on);
}

// INDEX VALUE
bool parse_msr(Words &words, Knobs *knobs)
{
    ExtraMsr msr;
    std::string index;

    words >> index;
    if (!parse_unsigned(index, &msr.index) || !parse_number(only(words), UINT64_MAX, &msr.reset))
        return false;
    knobs->msrs.push_back(msr);
    return true;
}

// LEAF SUBLEAF eax|ebx|ecx|edx BITS
bool parse_cpuid(Words &words, std::vector<ExtraCpuid> *list)
{
    ExtraCpuid extra;
    std::string leaf, subleaf, reg;

    words >> leaf >> subleaf >> reg;
    if (!parse_unsigned(leaf, &extra.leaf) || !parse_unsigned(subleaf, &extra.subleaf) ||
        !choose(reg, {{"eax", 0u}, {"ebx", 1u}, {"ecx", 2u}, {"edx", 3u}}, &extra.reg) ||
        !parse_unsigned(only(words), &extra.bits))
        return false;
    list->push_back(extra);
    return true;
}

// A name, which whoever takes it looks up.
bool parse_name(Words &words, std::vector<std::string> *names)
{
    names->push_back(only(words));
    return !names->back().empty();
}

bool parse_mask(Words &words, unsigned most, uint32_t *mask)
{
    return parse_unsigned(only(words), mask) && *mask >> most == 0;
}

// The counters from 0 on without a gap.
bool contiguous(uint32_t mask) { return (mask & (mask + 1)) == 0; }

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

struct Knob {
    const char *name;
    KnobActs acts;
    const char *wanted;
    bool (*parse)(Words &words, Knobs *knobs);
    const char *(*part)(const std::string &value) = nullptr; /* in place of both, for a part's */
};

template<unsigned Knobs::*number> bool parse(Words &words, Knobs *knobs)
{
    return parse_unsigned(only(words), &(knobs->*number));
}

template<bool Knobs::*on> bool parse(Words &words, Knobs *knobs)
{
    return parse_switch(words, &(knobs->*on));
}

// servers.py reads the first two columns, and README.md has a row for each name.
const std::vector<Knob> all_knobs = {
    {"allow_resets", LATE, "a number", parse<&Knobs::allow_resets>},
    {"arch_lbr", LATE, "off, on, or 8 or 16 records",
     [](Words &words, Knobs *knobs) {
         return choose(only(words), {{"off", 0u}, {"on", LBR_DEPTH}, {"8", 8u}, {"16", 16u}},
                       &knobs->arch_lbr);
     }},
    {"cpuid", LATE, "LEAF SUBLEAF eax|ebx|ecx|edx BITS",
     [](Words &words, Knobs *knobs) { return parse_cpuid(words, &knobs->cpuid); }},
    {"exit_lines", LATE, "on or off", parse<&Knobs::exit_lines>},
    {"exit_paths", LATE, "on or off", parse<&Knobs::exit_paths>},
    {"feature_control", LATE, "unlocked, locked_off or locked_on",
     [](Words &words, Knobs *knobs) {
         return choose(only(words),
                       {{"unlocked", FEATURE_CONTROL_UNLOCKED},
                        {"locked_off", FEATURE_CONTROL_LOCKED_OFF},
                        {"locked_on", FEATURE_CONTROL_LOCKED_ON}},
                       &knobs->feature_control);
     }},
    {"guest_files", AFTER_INIT, "FOLDER",
     [](Words &words, Knobs *knobs) { return !(knobs->guest_files = rest_of(words)).empty(); }},
    {"hide_control", LATE, "the name of a VMX control",
     [](Words &words, Knobs *knobs) { return parse_name(words, &knobs->hide_controls); }},
    {"hide_cpuid", LATE, "LEAF SUBLEAF eax|ebx|ecx|edx BITS",
     [](Words &words, Knobs *knobs) { return parse_cpuid(words, &knobs->hide_cpuid); }},
    // run.sh hands this one to Bochs, which knows the names.
    {"hide_feature", EARLY, "the name of a processor feature",
     [](Words &words, Knobs *) { return !only(words).empty(); }},
    {"hide_msr", LATE, "INDEX",
     [](Words &words, Knobs *knobs) {
         return parse_unsigned(only(words), &knobs->hide_msrs.emplace_back());
     }},
    {"mov_ss_ignored", LATE, "on or off", parse<&Knobs::mov_ss_ignored>},
    {"msr", LATE, "INDEX VALUE", parse_msr},
    // run.sh leaves MWAIT to several processors then.
    {"mwait_wake", EARLY, "a number of ticks", parse<&Knobs::mwait_wake>},
    {"nmi_handler", LATE, "nmis=N[-M] position=K|sweep[/K] [host]",
     [](Words &words, Knobs *knobs) { return parse_schedule(words, false, knobs); }},
    {"nmi_root", LATE, "reason=R exits=N[-M] position=K|sweep[/K] [host] [unblocked]",
     [](Words &words, Knobs *knobs) { return parse_schedule(words, true, knobs); }},
    {"pebs", LATE, "off, 3 or 4",
     [](Words &words, Knobs *knobs) {
         return choose(only(words),
                       {{"off", PEBS_OFF}, {"3", PEBS_FORMAT_SKYLAKE}, {"4", PEBS_FORMAT_ADAPTIVE}},
                       &knobs->pebs);
     }},
    {"pebs_late", LATE, "a number of instructions", parse<&Knobs::pebs_late>},
    {"platform", LATE, "on or off",
     [](Words &words, Knobs *knobs) { return parse_switch(words, &knobs->platform.on); }},
    {"pmi_skid", LATE, "a number of instructions, or sweep/L", parse_skid},
    {"pmi_status", LATE, "a bit's number, or none", parse_pmi_status},
    {"pmu", LATE, "on or off", parse<&Knobs::pmu>},
    {"pmu_fixed_ctrl", LATE, "a value of IA32_FIXED_CTR_CTRL",
     [](Words &words, Knobs *knobs) {
         return parse_unsigned(only(words), &knobs->pmu_shape.fixed_ctrl);
     }},
    {"pmu_fixed_mask", LATE, "a mask of at most 16 counters",
     [](Words &words, Knobs *knobs) {
         return parse_mask(words, PMU_FIXED_MAX, &knobs->pmu_shape.fixed);
     }},
    {"pmu_general_mask", LATE, "a mask of at most 16 counters",
     [](Words &words, Knobs *knobs) {
         return parse_mask(words, PMU_GENERAL_MAX, &knobs->pmu_shape.general);
     }},
    {"pmu_metrics", LATE, "on or off",
     [](Words &words, Knobs *knobs) { return parse_switch(words, &knobs->pmu_shape.metrics); }},
    {"pmu_version", LATE, "3, 4, 5 or 6",
     [](Words &words, Knobs *knobs) {
         unsigned &version = knobs->pmu_shape.version;
         return parse_unsigned(only(words), &version) && version >= PMU_VERSION_LEAST &&
                version <= PMU_VERSION_LEAF_23H;
     }},
    {"processor", LATE, "N and a line of cpuid, msr, arch_lbr, pebs or pmu_*", parse_own},
    {"pt", LATE, "off, on or ptwrite",
     [](Words &words, Knobs *knobs) {
         return choose(only(words), {{"off", PT_OFF}, {"on", PT_ON}, {"ptwrite", PT_WITH_PTWRITE}},
                       &knobs->pt);
     }},
    {"pt_overflow", LATE, "BYTES BRANCHES",
     [](Words &words, Knobs *knobs) {
         std::string bytes;
         words >> bytes;
         return parse_unsigned(bytes, &knobs->pt_overflow_every) &&
                parse_unsigned(only(words), &knobs->pt_overflow_branches) &&
                knobs->pt_overflow_every > 0 && knobs->pt_overflow_branches > 0;
     }},
    {"ratios", LATE, "up to 8 falling ratios of 1 to 255",
     [](Words &words, Knobs *knobs) { return parse_ratios(only(words), &knobs->platform.ratios); }},
    {"regions_of_all", LATE, "on or off", parse<&Knobs::regions_of_all>},
    {"reset_button", LATE, "MILLIONS TEXT",
     [](Words &words, Knobs *knobs) {
         std::string millions;
         words >> millions;
         return parse_unsigned(millions, &knobs->reset_after) &&
                !(knobs->reset_text = rest_of(words)).empty();
     }},
    {"show_control", LATE, "the name of a VMX control",
     [](Words &words, Knobs *knobs) { return parse_name(words, &knobs->show_controls); }},
    {"tsc_hz", LATE, "a frequency in Hz, or 0", parse<&Knobs::tsc_hz>},
    {"tsc_noise", LATE,
     "seed=N and any of jitter=, drift=, slow= (millionths), smi=TICKS (4096 or more), since=TICKS",
     [](Words &words, Knobs *knobs) { return parse_noise(words, &knobs->noise); }},
    {"unknown_msrs", LATE, "fault or ignore",
     [](Words &words, Knobs *knobs) {
         return choose(only(words), {{"ignore", false}, {"fault", true}},
                       &knobs->unknown_msrs_fault);
     }},
#define PART(name, acts, wanted) {#name, acts, nullptr, nullptr, wanted},
#include "parts.inc"
#undef PART
};

// Reads the values of one knob. Null if they are good, else what is wanted.
const char *parse_knob(const Knob &knob, const std::string &name, Words &words, Knobs *knobs)
{
    if (!knob.part)
        return knob.parse(words, knobs) ? nullptr : knob.wanted;
    return knob.part(knobs->parts[name] = rest_of(words));
}

const Knob *find_knob(const std::string &name)
{
    for (const Knob &knob : all_knobs)
        if (name == knob.name)
            return &knob;
    return nullptr;
}

// The same of a line of that name.
const char *parse_line(Words &words, const std::string &name, Knobs *knobs)
{
    const Knob *knob = find_knob(name);

    return knob ? parse_knob(*knob, name, words, knobs) : "";
}

std::string every_name()
{
    std::string all;

    for (const Knob &knob : all_knobs)
        all += (all.empty() ? "one of " : ", ") + std::string(knob.name);
    return all;
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
        const Knob *knob = find_knob(name);
        const char *wanted = parse_line(words, name, knobs);
        if (!wanted) {
            if (knob->acts == EARLY)
                knobs->machine += line + "\n";
            if (knob->acts != AFTER_INIT)
                knobs->before_init += line + "\n";
            continue;
        }
        std::ostringstream text;
        text << "knob in line " << number << ": found '" << line << "', wanted "
             << (knob ? wanted : every_name());
        *error = text.str();
        return false;
    }
    std::vector<PmuShape> shapes = {knobs->pmu_shape};
    for (const OwnKnob &own : knobs->own)
        shapes.push_back(knobs_of(*knobs, own.processor).pmu_shape);
    for (const PmuShape &shape : shapes)
        if (const char *wanted = pmu_impossible(shape)) {
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

Knobs knobs_of(const Knobs &all, unsigned processor)
{
    Knobs one = all;

    for (const OwnKnob &own : all.own) {
        std::istringstream words(own.line);
        std::string name;
        if (own.processor == processor && words >> name)
            parse_line(words, name, &one);
    }
    return one;
}

const char *knobs_with_kernel()
{
    for (const Knob &knob : all_knobs)
        if (knob.acts == WITH_KERNEL && current.parts.count(knob.name) > 0)
            return knob.name;
    return nullptr;
}
