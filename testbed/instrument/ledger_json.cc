// SPDX-License-Identifier: BSD-2-Clause
//
// Writes the ledger's JSON by hand: the schema is small and fixed. Names of exit reasons are those
// of SDM Vol. 3, "VMX Basic Exit Reasons".
#include "ledger_json.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace {

struct ReasonName {
    unsigned reason;
    const char *name;
};

constexpr ReasonName reason_names[] = {
    {0, "exception or NMI"},
    {1, "external interrupt"},
    {2, "triple fault"},
    {3, "INIT signal"},
    {4, "SIPI"},
    {5, "I/O SMI"},
    {6, "other SMI"},
    {7, "interrupt window"},
    {8, "NMI window"},
    {9, "task switch"},
    {10, "CPUID"},
    {11, "GETSEC"},
    {12, "HLT"},
    {13, "INVD"},
    {14, "INVLPG"},
    {15, "RDPMC"},
    {16, "RDTSC"},
    {17, "RSM"},
    {18, "VMCALL"},
    {19, "VMCLEAR"},
    {20, "VMLAUNCH"},
    {21, "VMPTRLD"},
    {22, "VMPTRST"},
    {23, "VMREAD"},
    {24, "VMRESUME"},
    {25, "VMWRITE"},
    {26, "VMXOFF"},
    {27, "VMXON"},
    {28, "control-register accesses"},
    {29, "MOV DR"},
    {30, "I/O instruction"},
    {31, "RDMSR"},
    {32, "WRMSR"},
    {33, "VM-entry failure: guest state"},
    {34, "VM-entry failure: MSR loading"},
    {36, "MWAIT"},
    {37, "monitor trap flag"},
    {39, "MONITOR"},
    {40, "PAUSE"},
    {41, "VM-entry failure: machine check"},
    {43, "TPR below threshold"},
    {44, "APIC access"},
    {45, "virtualized EOI"},
    {46, "access to GDTR or IDTR"},
    {47, "access to LDTR or TR"},
    {48, "EPT violation"},
    {49, "EPT misconfiguration"},
    {50, "INVEPT"},
    {51, "RDTSCP"},
    {52, "VMX-preemption timer expired"},
    {53, "INVVPID"},
    {54, "WBINVD or WBNOINVD"},
    {55, "XSETBV"},
    {56, "APIC write"},
    {57, "RDRAND"},
    {58, "INVPCID"},
    {59, "VMFUNC"},
    {60, "ENCLS"},
    {61, "RDSEED"},
    {62, "page-modification log full"},
    {63, "XSAVES"},
    {64, "XRSTORS"},
};

const char *name_of(unsigned reason)
{
    for (const ReasonName &known : reason_names)
        if (known.reason == reason)
            return known.name;
    return "reserved";
}

void put_spread(std::ostream &out, const char *name, const Spread &spread)
{
    out << '"' << name << "\": {\"samples\": " << spread.samples << ", \"sum\": " << spread.sum
        << ", \"min\": " << spread.min << ", \"max\": " << spread.max << '}';
}

void put_exits(std::ostream &out, const Tally &tally, const std::string &indent)
{
    const char *comma = "\n";

    out << indent << "\"exits\": {";
    for (const auto &[reason, exit] : tally.exits) {
        // A region can see the end of an exit whose beginning lay before it.
        out << comma << indent << "  \"" << reason << "\": {\"name\": \"" << name_of(reason)
            << "\", \"count\": " << exit.count << ", ";
        put_spread(out, "root_instructions", exit.root_instructions);
        out << ", ";
        put_spread(out, "vmcs_accesses", exit.vmcs_accesses);
        const char *before = ", \"msrs\": {";
        for (const auto &[index, count] : exit.msrs) {
            out << before << '"' << index << "\": " << count;
            before = ", ";
        }
        out << (exit.msrs.empty() ? "}" : "}}");
        comma = ",\n";
    }
    out << (tally.exits.empty() ? "" : "\n" + indent) << "},\n";
}

// Where the knob `pebs` is off there is none of these.
void put_stored(std::ostream &out, const Tally &tally, const std::string &indent)
{
    static constexpr const char *names[STORED_KINDS] = {
        "pebs", "pebs_root", "pebs_full", "pebs_dropped", "bts", "pt", "pt_root", "pt_lost"};
    const char *comma = "";

    if (std::all_of(tally.stored, tally.stored + STORED_KINDS, [](uint64_t n) { return n == 0; }))
        return;
    out << ",\n" << indent << "\"stored\": {";
    for (unsigned kind = 0; kind < STORED_KINDS; kind++) {
        out << comma << '"' << names[kind] << "\": " << tally.stored[kind];
        comma = ", ";
    }
    out << '}';
}

// Of those that are counted in both worlds.
constexpr unsigned EXECUTED_FIRST = EXECUTED_RDMSR_PMU;
constexpr const char *executed_names[EXECUTED_KINDS - EXECUTED_FIRST] = {
    "rdmsr_pmu",   "rdmsr_apic", "rdmsr_other", "wrmsr_pmu",  "wrmsr_apic",
    "wrmsr_other", "spec_ctrl",  "l1d_flush",   "verw",       "rdpmc",
    "iret",        "cr3_load",   "cpuid",       "apic_access"};

uint64_t sum_of(const uint64_t *counts, Executed first, Executed last)
{
    return std::accumulate(counts + first, counts + last + 1, uint64_t{0});
}

void put_executed(std::ostream &out, const uint64_t *counts)
{
    const char *comma = "";

    out << '{';
    for (unsigned kind = EXECUTED_FIRST; kind < EXECUTED_KINDS; kind++) {
        out << comma << '"' << executed_names[kind - EXECUTED_FIRST] << "\": " << counts[kind];
        comma = ", ";
    }
    out << '}';
}

void put_tally(std::ostream &out, const Tally &tally, const std::string &indent)
{
    uint64_t root_kernel = tally.instructions[MODE_ROOT_BIT];
    uint64_t root_user = tally.instructions[MODE_ROOT_BIT | MODE_USER_BIT];
    uint64_t kernel = tally.instructions[0];
    uint64_t user = tally.instructions[MODE_USER_BIT];
    const uint64_t *in_root = tally.executed[WORLD_ROOT];

    put_exits(out, tally, indent);
    out << indent << "\"root\": {\"instructions\": " << root_kernel + root_user
        << ", \"vmread\": " << in_root[EXECUTED_VMREAD]
        << ", \"vmwrite\": " << in_root[EXECUTED_VMWRITE]
        << ", \"rdmsr\": " << sum_of(in_root, EXECUTED_RDMSR_PMU, EXECUTED_RDMSR_OTHER)
        << ", \"wrmsr\": " << sum_of(in_root, EXECUTED_WRMSR_PMU, EXECUTED_L1D_FLUSH)
        << ", \"cpuid\": " << in_root[EXECUTED_CPUID]
        << ", \"listed\": " << in_root[EXECUTED_LISTED] << "},\n";
    out << indent << "\"nonroot\": {\"instructions\": " << kernel + user
        << ", \"kernel\": " << kernel << ", \"user\": " << user << "},\n";
    out << indent << "\"executed\": {\"root\": ";
    put_executed(out, in_root);
    out << ",\n" << indent << "             \"nonroot\": ";
    put_executed(out, tally.executed[WORLD_NONROOT]);
    out << "},\n";
    out << indent << "\"nmi\": {\"root\": " << tally.nmi[ARRIVAL_ROOT]
        << ", \"nonroot\": " << tally.nmi[ARRIVAL_NONROOT]
        << ", \"exits\": " << tally.nmi[ARRIVAL_EXIT] << ", \"injected\": " << tally.nmi_injected
        << "},\n";
    out << indent << "\"pmi\": {\"raised\": " << tally.pmi_raised
        << ", \"masked\": " << tally.pmi_masked << ", \"root\": " << tally.pmi[ARRIVAL_ROOT]
        << ", \"nonroot\": " << tally.pmi[ARRIVAL_NONROOT]
        << ", \"exits\": " << tally.pmi[ARRIVAL_EXIT] << '}';
    put_stored(out, tally, indent);
}

void put_processors(std::ostream &out, const std::vector<Tally> &processors)
{
    const char *comma = "\n";

    out << ",\n  \"processors\": [";
    for (const Tally &tally : processors) {
        out << comma << "    {\n";
        put_tally(out, tally, "      ");
        out << "\n    }";
        comma = ",\n";
    }
    out << (processors.empty() ? "" : "\n  ") << ']';
}

void put_lines(std::ostream &out, const std::map<unsigned, LineSummary> &all)
{
    const char *comma = "\n";

    out << ",\n  \"exit_lines\": {";
    for (const auto &[reason, lines] : all) {
        out << comma << "    \""
            << (reason == LINES_ANY ? std::string("any") : std::to_string(reason))
            << "\": {\"touched\": " << lines.touched << ", \"written\": " << lines.written
            << ", \"shared\": " << lines.shared << ", \"addresses\": [";
        for (size_t n = 0; n < lines.addresses.size(); n++)
            out << (n == 0 ? "" : ", ") << lines.addresses[n];
        out << "]}";
        comma = ",\n";
    }
    out << (all.empty() ? "" : "\n  ") << '}';
}

// Of each reason the commonest way first.
void put_paths(std::ostream &out, const Tally &tally, const std::string &indent)
{
    const char *comma = "\n";

    out << ",\n" << indent << "\"exit_paths\": {";
    for (const auto &[reason, exit] : tally.exits) {
        std::vector<std::pair<uint64_t, const Path *>> sorted;
        for (const auto &[path, count] : exit.paths)
            sorted.emplace_back(count, &path);
        if (sorted.empty())
            continue;
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const auto &a, const auto &b) { return a.first > b.first; });
        out << comma << indent << "  \"" << reason << "\": [";
        comma = ",\n";
        for (const auto &[count, path] : sorted) {
            out << (path == sorted.front().second ? "\n" : ",\n") << indent
                << "    {\"count\": " << count << ", \"steps\": [";
            for (size_t n = 0; n < path->size(); n++)
                out << (n == 0 ? "[" : ", [") << (*path)[n].first << ", " << (*path)[n].second
                    << ']';
            out << "]}";
        }
        out << ']';
    }
    out << '}';
}

}  // namespace

std::string ledger_json(const LedgerSummary &summary)
{
    std::ostringstream out;
    const char *comma = "\n";

    out << "{\n  \"schema\": 1,\n  \"end\": \"" << summary.end
        << "\",\n  \"cpus\": " << summary.cpus << ",\n  \"ticks\": " << summary.ticks
        << ",\n  \"forked_at\": " << summary.forked_at << ",\n";
    put_tally(out, summary.total, "  ");
    out << ",\n  \"scheduled_nmis\": {\"fired\": " << summary.nmis_fired
        << ", \"missed\": " << summary.nmis_missed << '}';
    put_processors(out, summary.processors);
    if (summary.lines_wanted)
        put_lines(out, summary.lines);
    if (summary.paths_wanted)
        put_paths(out, summary.total, "  ");
    out << ",\n  \"stray_region_ends\": " << summary.stray_ends << ",\n  \"regions\": {";
    for (const auto &[id, tally] : summary.regions) {
        out << comma << "    \"" << id << "\": {\n      \"begins\": " << tally.begins
            << ",\n      \"open\": " << (tally.open ? "true" : "false") << ",\n";
        put_tally(out, tally, "      ");
        if (summary.paths_wanted)
            put_paths(out, tally, "      ");
        out << "\n    }";
        comma = ",\n";
    }
    out << (summary.regions.empty() ? "" : "\n  ") << "}\n}\n";
    return out.str();
}
