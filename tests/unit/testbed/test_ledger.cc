// SPDX-License-Identifier: BSD-2-Clause
//
// Ledger, scheduled NMIs and knobs: what the README of the test bed promises of them.
#include <array>
#include <sstream>

#include "check.h"
#include "exit_paths.h"
#include "inject.h"
#include "knobs.h"
#include "ledger.h"
#include "ledger_json.h"
#include "lines.h"

namespace {

constexpr unsigned KERNEL = 0;
constexpr unsigned USER = MODE_USER_BIT;
constexpr unsigned ROOT = MODE_ROOT_BIT;
constexpr unsigned CPUID = 10;

TEST(exit_to_entry_counts_the_entry_instruction)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    ledger.vm_exit(CPUID);
    retired[ROOT] += 37;
    for (Executed kind : {EXECUTED_VMREAD, EXECUTED_VMWRITE, EXECUTED_CPUID}) {
        ledger.executes(kind, WORLD_ROOT);
        retired[ROOT]++;
    }
    ledger.vm_entry();
    retired[ROOT]++;
    ledger.vm_exit(CPUID);
    retired[ROOT] += 9;
    ledger.vm_entry();
    const ExitTally exit = ledger.total().exits[CPUID];
    CHECK_EQUAL(exit.count, 2u);
    CHECK_EQUAL(exit.root_instructions.min, 10u);
    CHECK_EQUAL(exit.root_instructions.max, 41u);
    CHECK_EQUAL(exit.root_instructions.sum, 51u);
    CHECK_EQUAL(exit.vmcs_accesses.max, 2u);
    CHECK_EQUAL(exit.vmcs_accesses.min, 0u);
    CHECK_EQUAL(ledger.total().executed[WORLD_ROOT][EXECUTED_CPUID], 1u);
}

TEST(only_what_retires_is_executed)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    auto executes = [&](Executed kind, unsigned mode) {
        ledger.executes(kind, mode == ROOT ? WORLD_ROOT : WORLD_NONROOT);
    };
    executes(EXECUTED_IRET, USER);
    retired[USER]++;
    ledger.region_begin(7, KERNEL);  // the IRET has retired before it
    retired[KERNEL]++;
    executes(EXECUTED_RDPMC, KERNEL);
    ledger.stops();  // it faults
    retired[KERNEL]++;
    executes(EXECUTED_VERW, KERNEL);
    retired[KERNEL]++;
    ledger.stops();  // the instruction after it faults
    executes(EXECUTED_RDMSR_PMU, KERNEL);
    ledger.vm_exit(31);
    ledger.apic_access(WORLD_ROOT);
    executes(EXECUTED_VMREAD, ROOT);
    retired[ROOT]++;
    CHECK_EQUAL(ledger.vmcs_accesses(), 1u);
    ledger.vm_entry();
    retired[ROOT]++;
    executes(EXECUTED_CR3_LOAD, KERNEL);
    retired[KERNEL]++;
    ledger.region_end(7);
    executes(EXECUTED_CPUID, KERNEL);  // in flight at the end
    CHECK_EQUAL(ledger.total().executed[WORLD_NONROOT][EXECUTED_IRET], 1u);
    Tally region = ledger.regions()[7];
    uint64_t wanted[WORLDS][EXECUTED_KINDS] = {};
    wanted[WORLD_NONROOT][EXECUTED_VERW] = wanted[WORLD_NONROOT][EXECUTED_CR3_LOAD] = 1;
    wanted[WORLD_ROOT][EXECUTED_APIC_ACCESS] = wanted[WORLD_ROOT][EXECUTED_VMREAD] = 1;
    for (unsigned world = 0; world < WORLDS; world++)
        for (unsigned kind = 0; kind < EXECUTED_KINDS; kind++)
            CHECK_EQUAL(region.executed[world][kind], wanted[world][kind]);
    CHECK_EQUAL(ledger.total().executed[WORLD_NONROOT][EXECUTED_CPUID], 0u);
}

TEST(rdmsr_and_wrmsr_are_of_the_kind_of_their_msr)
{
    for (uint32_t index : {0x0c1u, 0x18fu, 0x1d9u, 0x309u, 0x392u, 0x4cau, 0x570u, 0x600u, 0x69fu,
                           0xddfu, 0x14ceu, 0x19bfu}) {
        CHECK_EQUAL(executed_rdmsr(index), EXECUTED_RDMSR_PMU);
        CHECK_EQUAL(executed_wrmsr(index, 1), EXECUTED_WRMSR_PMU);
    }
    for (uint32_t index : {0x800u, 0x830u, 0x8ffu}) {
        CHECK_EQUAL(executed_rdmsr(index), EXECUTED_RDMSR_APIC);
        CHECK_EQUAL(executed_wrmsr(index, 0), EXECUTED_WRMSR_APIC);
    }
    for (uint32_t index : {0x01bu, 0x048u, 0x0c0u, 0x0cbu, 0x10bu, 0x6e0u, 0x7ffu, 0x900u})
        CHECK_EQUAL(executed_rdmsr(index), EXECUTED_RDMSR_OTHER);
    CHECK_EQUAL(executed_wrmsr(0x048, 0), EXECUTED_SPEC_CTRL);
    CHECK_EQUAL(executed_wrmsr(0x10b, 1), EXECUTED_L1D_FLUSH);
    CHECK_EQUAL(executed_wrmsr(0x10b, 2), EXECUTED_WRMSR_OTHER);
    CHECK_EQUAL(executed_wrmsr(0x6e0, 0), EXECUTED_WRMSR_OTHER);
}

TEST(a_failed_entry_ends_one_exit_and_is_the_next)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    ledger.vm_exit(CPUID);
    retired[ROOT] += 5;
    ledger.vm_exit(33);
    retired[ROOT] += 7;
    ledger.vm_entry();
    CHECK_EQUAL(ledger.total().exits[CPUID].root_instructions.sum, 6u);
    CHECK_EQUAL(ledger.total().exits[33].root_instructions.sum, 8u);
}

TEST(regions_nest_and_leave_their_markers_out)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    ledger.region_begin(7, USER);
    retired[USER]++;
    retired[USER] += 10;
    ledger.region_begin(8, USER);
    retired[USER]++;
    ledger.nmi(ARRIVAL_NONROOT);
    retired[KERNEL] += 5;
    ledger.region_end(8);
    retired[USER]++;
    ledger.pmi_raised(true);
    ledger.region_end(7);
    retired[USER]++;
    ledger.nmi(ARRIVAL_ROOT);
    auto regions = ledger.regions();
    CHECK_EQUAL(regions[8].instructions[KERNEL], 5u);
    CHECK_EQUAL(regions[8].instructions[USER], 0u);
    CHECK_EQUAL(regions[8].nmi[ARRIVAL_NONROOT], 1u);
    CHECK_EQUAL(regions[8].pmi_raised, 0u);
    CHECK_EQUAL(regions[7].instructions[USER], 12u);
    CHECK_EQUAL(regions[7].instructions[KERNEL], 5u);
    CHECK_EQUAL(regions[7].nmi[ARRIVAL_NONROOT], 1u);
    CHECK_EQUAL(regions[7].nmi[ARRIVAL_ROOT], 0u);
    CHECK_EQUAL(regions[7].pmi_masked, 1u);
    CHECK_EQUAL(ledger.total().nmi[ARRIVAL_ROOT], 1u);
}

// A marker that another processor executes is no instruction here, and no begin of its own.
TEST(a_region_of_all_processors_is_counted_on_each)
{
    uint64_t retired[MODE_COUNT] = {}, others[MODE_COUNT] = {};
    Ledger ledger(retired), other(others);
    others[USER] = 100;
    ledger.region_begin(7, USER);
    other.region_begin_here(7);
    retired[USER]++;
    retired[USER] += 10;
    others[USER] += 5;
    other.nmi(ARRIVAL_NONROOT);
    other.region_end(7);
    ledger.region_end_here(7);
    others[USER]++;
    CHECK_EQUAL(ledger.regions()[7].instructions[USER], 10u);
    CHECK_EQUAL(other.regions()[7].instructions[USER], 5u);
    CHECK_EQUAL(other.regions()[7].nmi[ARRIVAL_NONROOT], 1u);
    CHECK_EQUAL(ledger.regions()[7].begins, 1u);
    CHECK_EQUAL(other.regions()[7].begins, 0u);
    CHECK_EQUAL(ledger.stray_ends() + other.stray_ends(), 0u);
    ledger.region_end_here(7);
    CHECK_EQUAL(ledger.regions()[7].instructions[USER], 10u);
    CHECK(!ledger.regions()[7].open);
}

TEST(a_region_can_be_run_again_and_stay_open)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    for (unsigned n = 0; n < 2; n++) {
        ledger.region_begin(1, KERNEL);
        retired[KERNEL]++;
        retired[KERNEL] += 4;
        if (n == 0)
            ledger.region_end(1);
    }
    ledger.region_end(99);
    CHECK_EQUAL(ledger.regions()[1].instructions[KERNEL], 8u);
    CHECK_EQUAL(ledger.regions()[1].begins, 2u);
    CHECK(ledger.regions()[1].open);
    CHECK_EQUAL(ledger.stray_ends(), 1u);
}

TEST(merged_spreads_keep_their_bounds)
{
    Spread one, two, empty;
    one.add(5);
    two.add(9);
    one.merge(two);
    one.merge(empty);
    CHECK_EQUAL(one.min, 5u);
    CHECK_EQUAL(one.max, 9u);
    CHECK_EQUAL(one.samples, 2u);
    empty.merge(one);
    CHECK_EQUAL(empty.min, 5u);
}

TEST(a_sweep_visits_every_position)
{
    NmiSchedule schedule;
    schedule.reason = CPUID;
    schedule.first = 2;
    schedule.last = 4;
    schedule.sweep = true;
    Injector injector({schedule});
    injector.vm_exit(CPUID, 0);
    CHECK_EQUAL(injector.budget(true, 0), Injector::NEVER);
    injector.vm_exit(1, 0);
    for (uint64_t k = 1; k <= 3; k++) {
        injector.vm_exit(CPUID, 1000);
        CHECK_EQUAL(injector.budget(true, 1000), k - 1);
        CHECK_EQUAL(injector.budget(false, 1000), Injector::NEVER);
        CHECK_EQUAL(injector.look(true, 1000 + k - 1).all, 1u);
        CHECK_EQUAL(injector.look(true, 1000 + k - 1).all, 0u);
        injector.vm_entry();
    }
    injector.vm_exit(CPUID, 2000);
    CHECK_EQUAL(injector.budget(true, 2000), Injector::NEVER);
    CHECK_EQUAL(injector.fired(), 3u);
    CHECK_EQUAL(injector.missed(), 0u);
}

TEST(an_nmi_whose_instruction_never_runs_is_missed)
{
    NmiSchedule schedule;
    schedule.reason = CPUID;
    schedule.position = 50;
    Injector injector({schedule});
    injector.vm_exit(CPUID, 0);
    CHECK_EQUAL(injector.look(true, 20).all, 0u);
    injector.vm_entry();
    CHECK_EQUAL(injector.missed(), 1u);
    CHECK_EQUAL(injector.look(true, 60).all, 0u);
}

TEST(host_nmis_are_told_apart)
{
    NmiSchedule guests, hosts;
    guests.reason = hosts.reason = CPUID;
    hosts.host = true;
    Injector injector({guests, hosts});
    injector.vm_exit(CPUID, 0);
    DueNmis due = injector.look(true, 0);
    CHECK_EQUAL(due.all, 2u);
    CHECK_EQUAL(due.host, 1u);
}

TEST(knobs_are_read)
{
    std::istringstream text("# comment\n"
                            "pmi_skid 3   # more\n"
                            "pmi_status 62\n"
                            "pmu off\n"
                            "allow_resets 2\n"
                            "reset_button 30  ends here\n"
                            "feature_control locked_off\n"
                            "hide_control enable_ept\n"
                            "hide_feature vmx\n"
                            "nmi_root reason=10 exits=3-9 position=sweep/4\n"
                            "nmi_handler nmis=5 position=7\n"
                            "nmi_root reason=0 exits=1 position=2 host\n"
                            "msr 0x123 0xf000000000000001\n"
                            "cpuid 7 0 edx 0x400\n");
    Knobs knobs;
    std::string error;
    CHECK(knobs_parse(text, &knobs, &error));
    CHECK_EQUAL(knobs.pmi_skid, 3u);
    CHECK_EQUAL(knobs.pmi_status, 62u);
    CHECK(!knobs.pmu);
    CHECK_EQUAL(knobs.allow_resets, 2u);
    CHECK_EQUAL(knobs.reset_after, 30u);
    CHECK_EQUAL(knobs.reset_text, "ends here");
    CHECK_EQUAL(knobs.feature_control, FEATURE_CONTROL_LOCKED_OFF);
    CHECK_EQUAL(knobs.hide_controls.at(0), "enable_ept");
    CHECK_EQUAL(knobs.nmi_schedules.at(0).wrap, 4u);
    CHECK_EQUAL(knobs.nmi_schedules.at(0).position_of(8), 2u);
    CHECK(!knobs.nmi_schedules.at(1).root);
    CHECK_EQUAL(knobs.nmi_schedules.at(1).first, 5u);
    CHECK_EQUAL(knobs.nmi_schedules.at(1).position_of(5), 7u);
    CHECK(!knobs.nmi_schedules.at(1).host);
    CHECK(knobs.nmi_schedules.at(2).host);
    CHECK_EQUAL(knobs.msrs.at(0).index, 0x123u);
    CHECK_EQUAL(knobs.msrs.at(0).reset, 0xf000000000000001u);
    CHECK_EQUAL(knobs.cpuid.at(0).leaf, 7u);
    CHECK_EQUAL(knobs.cpuid.at(0).reg, 3u);
    CHECK_EQUAL(knobs.cpuid.at(0).bits, 0x400u);
}

// The machine's lines are those that a server and its children must have in common.
TEST(late_knobs_make_no_other_machine)
{
    std::istringstream text(
        "pmi_skid 3\nhide_feature vmx # none\npmu_version 5\nnmi_handler nmis=1 position=sweep\n"
        "allow_resets 2\nexit_lines on\nexit_paths on\nregions_of_all "
        "on\nunknown_msrs ignore\ntsc_hz 0\nmwait_wake 5\n"
        "hide_control enable_vpid\nmsr 0x10a 0\npmu off\n");
    Knobs knobs;
    std::string error;
    CHECK(knobs_parse(text, &knobs, &error));
    CHECK(knobs.machine == "hide_feature vmx # none\nmwait_wake 5\n");
}

TEST(bad_knobs_are_named)
{
    const char *bad[] = {
        "nonsense 1",
        "reset_button 3",
        "reset_button soon text",
        "pmi_skid",
        "pmi_skid x",
        "pmi_skid -1",
        "pmi_status 64",
        "pmi_status some",
        "pmu maybe",
        "pmu on on",
        "regions_of_all 2",
        "exit_paths",
        "hide_control",
        "feature_control",
        "nmi_root reason=1",
        "nmi_root reason=1 exits=0 position=1",
        "nmi_root reason=1 exits=3-2 position=1",
        "nmi_handler nmis=1 position=0",
        "nmi_handler nmis=1 position=sweepy",
        "nmi_handler nmis=1 position=1 guest",
        "msr 1",
        "msr 0x100000000 1",
        "msr 1 2 3",
        "cpuid 7 0 esi 1",
        "cpuid 7 0 eax",
    };
    for (const char *line : bad) {
        std::istringstream text(line);
        Knobs knobs;
        std::string error;
        if (knobs_parse(text, &knobs, &error) || error.find(line) == std::string::npos) {
            std::fprintf(stderr, "knob accepted or not named: %s (%s)\n", line, error.c_str());
            std::exit(EXIT_FAILURE);
        }
    }
}

TEST(json_has_the_documented_keys)
{
    uint64_t retired[MODE_COUNT] = {3, 4, 5, 0};
    Ledger ledger(retired);
    LedgerSummary summary;
    ledger.vm_exit(CPUID);
    ledger.region_begin(42, KERNEL);
    summary.end = "poweroff";
    summary.cpus = 1;
    summary.ticks = 12;
    summary.forked_at = 5;
    summary.total = ledger.total();
    summary.regions = ledger.regions();
    std::string text = ledger_json(summary);
    const char *keys[] = {
        "\"schema\": 1",
        "\"end\": \"poweroff\"",
        "\"ticks\": 12",
        "\"forked_at\": 5",
        "\"exits\"",
        "\"10\": {\"name\": \"CPUID\"",
        "\"root_instructions\": {\"samples\": 0",
        "\"vmread\"",
        "\"nonroot\": {\"instructions\": 7",
        "\"executed\": {\"root\": {\"rdmsr_pmu\": 0",
        "\"cpuid\": 0, \"apic_access\": 0}",
        "\"raised\"",
        "\"regions\"",
        "\"42\"",
        "\"open\": true",
    };
    for (const char *key : keys) {
        if (text.find(key) == std::string::npos) {
            std::fprintf(stderr, "no %s in %s\n", key, text.c_str());
            std::exit(EXIT_FAILURE);
        }
    }
}

TEST(exits_of_msrs_are_told_apart)
{
    uint64_t retired[MODE_COUNT] = {};
    Ledger ledger(retired);
    LedgerSummary summary;
    for (uint32_t index : {0x186u, 0x186u, 0xc0000080u}) {
        ledger.vm_exit(32);
        ledger.exit_of_msr(index);
        ledger.vm_entry();
    }
    summary.total.merge(ledger.total());
    summary.total.merge(ledger.total());
    CHECK(ledger_json(summary).find("\"msrs\": {\"390\": 4, \"3221225600\": 2}}") !=
          std::string::npos);
}

// Two ways, of which one is the same on two processors and in a region; an instruction that did not
// retire is none.
TEST(ways_of_exits_are_listed_once)
{
    using Steps = std::vector<std::array<uint64_t, 3>>;  // address, retired, accesses
    const Steps usual = {{0x10, 5, 0}, {0x13, 6, 0}, {0x18, 7, 2}};
    // An NMI comes before 0x13.
    const Steps other = {{0x10, 9, 2}, {0x13, 10, 2}, {0x20, 10, 2}, {0x13, 11, 2}, {0x18, 12, 3}};
    uint64_t retired[MODE_COUNT] = {};
    Ledger first(retired), second(retired);
    PathLog log;
    LedgerSummary summary;
    auto exit = [&log](Ledger &ledger, const Steps &steps) {
        ledger.vm_exit(CPUID);
        log.exit();
        for (const auto &[rip, before, accesses] : steps)
            log.step(rip, before, accesses);
        ledger.exit_path(log.entry());
        ledger.vm_entry();
    };
    first.region_begin(7, KERNEL);
    exit(first, usual);
    first.region_end(7);
    exit(second, usual);
    exit(first, other);
    first.vm_exit(CPUID);
    log.exit();
    log.step(0x10, 13, 3);  // and no entry
    summary.total.merge(first.total());
    summary.total.merge(second.total());
    summary.regions = first.regions();
    CHECK(ledger_json(summary).find("exit_paths") == std::string::npos);
    summary.paths_wanted = true;
    const std::string text = ledger_json(summary);
    CHECK(text.find("\n  \"exit_paths\": {\n    \"10\": [\n"
                    "      {\"count\": 2, \"steps\": [[16, 0], [19, 2], [24, 0]]},\n"
                    "      {\"count\": 1, \"steps\": [[16, 0], [32, 0], [19, 1], [24, 0]]}]}") !=
          std::string::npos);
    CHECK(text.find("\n      \"exit_paths\": {\n        \"10\": [\n          {\"count\": 1, "
                    "\"steps\": [[16, 0], [19, 2], [24, 0]]}]}") != std::string::npos);
}

TEST(a_way_without_end_is_not_kept)
{
    PathLog log;
    log.exit();
    for (uint64_t n = 0; n <= PATH_STEPS_MAX; n++)
        log.step(0x10, n, 0);
    CHECK(log.entry().empty());
    log.step(0x10, 0, 0);
    CHECK_EQUAL(log.entry().size(), 1u);
}

TEST(lines_shared_are_written_by_one_and_touched_by_another)
{
    LineLog first, second;
    first.access(0x1000, 8, true);   // and read by the other one
    first.access(0x1040, 8, true);   // its own in this exit
    first.access(0x1080, 8, false);  // both only read it
    first.access(0x10fc, 8, false);  // across two lines
    first.entry(CPUID);
    second.access(0x1038, 8, false);
    second.access(0x1080, 8, false);
    second.access(0x1100, 1, true);
    second.entry(CPUID);
    second.access(0x1040, 8, true);
    second.entry(CPUID + 1);
    second.access(0x1080, 8, true);  // never entered again
    auto all = lines_summary({&first, &second});
    CHECK_EQUAL(all[CPUID].touched, 5u);
    CHECK_EQUAL(all[CPUID].written, 3u);
    CHECK_EQUAL(all[CPUID].shared, 2u);
    CHECK_EQUAL(all[CPUID].addresses[0], 0x1000u);
    CHECK_EQUAL(all[CPUID].addresses[1], 0x1100u);
    CHECK_EQUAL(all[CPUID + 1].shared, 0u);
    CHECK_EQUAL(all[LINES_ANY].shared, 3u);
}

}  // namespace
