// SPDX-License-Identifier: BSD-2-Clause
//
// CPUID and MSRs of the model. Bochs asks its CPUID object for every MSR that it does not know,
// from RDMSR, WRMSR and the VMX MSR lists alike, and takes a fault as an answer: the object here is
// the PMU's way in. SDM Vol. 4, "Model-Specific Registers".
#include "bochs.h"
#include "cpu.h"

#include "cpuid.h"
#include "hot.h"
#include "knobs.h"
#include "model.h"
#include "msr_index.h"
#include "pc_system.h"
#include "pmu_cpuid.h"
#include "pt_machine.h"

namespace {

bool firmware_done;
// Quiet until the firmware is done, so that servers have nothing of it.
Noise noise;

// An MSR that keeps what is written to it. A write outside `writable` faults.
struct StoredMsr {
    uint32_t index;
    uint64_t reset;
    uint64_t writable;
};

constexpr uint64_t ANY = ~uint64_t{0};
// Below 0x2000014 Linux gives up the TSC-deadline timer of this model. The revision is the high
// half.
constexpr uint64_t MICROCODE_REVISION = uint64_t{0x2000065} << 32;
constexpr uint64_t PLATFORM_INFO_RATIO = uint64_t{MODEL_RATIO} << 8;
constexpr uint64_t MISC_ENABLE_RESET = MISC_ENABLE_FAST_STRINGS | MISC_ENABLE_TCC |
                                       MISC_ENABLE_EMON | MISC_ENABLE_BTS_UNAVAIL |
                                       MISC_ENABLE_PEBS_UNAVAIL | MISC_ENABLE_EIST |
                                       MISC_ENABLE_MONITOR;
constexpr uint64_t MISC_ENABLE_READ_ONLY = MISC_ENABLE_EMON | MISC_ENABLE_BTS_UNAVAIL |
                                           MISC_ENABLE_PEBS_UNAVAIL;
constexpr uint64_t TEMPERATURE_TARGET_100C = uint64_t{100} << 16;
constexpr uint64_t THERM_STATUS_VALID = bit(31);

constexpr StoredMsr stored_msrs[] = {
    {IA32_PLATFORM_ID, 0, 0},
    {IA32_BIOS_UPDT_TRIG, 0, ANY},
    {IA32_BIOS_SIGN_ID, MICROCODE_REVISION, ANY},
    {MSR_PLATFORM_INFO, PLATFORM_INFO_RATIO, 0},
    {IA32_MCG_CAP, 0, 0},
    {IA32_MCG_STATUS, 0, 7},
    {IA32_PERF_STATUS, uint64_t{MODEL_RATIO} << 8, 0},
    {IA32_PERF_CTL, uint64_t{MODEL_RATIO} << 8, bit(32) | 0xffff},
    {IA32_CLOCK_MODULATION, 0, 0x1f},
    {IA32_THERM_INTERRUPT, 0, 0x1ffff1f},
    {IA32_THERM_STATUS, THERM_STATUS_VALID, 0xaaa},
    {IA32_MISC_ENABLE, MISC_ENABLE_RESET, ANY},
    {MSR_TEMPERATURE_TARGET, TEMPERATURE_TARGET_100C, 0},
    {MSR_MISC_FEATURE_CONTROL, 0, 0xf},
    {MSR_OFFCORE_RSP_0, 0, 0x3fffffffff},
    {MSR_OFFCORE_RSP_1, 0, 0x3fffffffff},
    {MSR_MISC_PWR_MGMT, 0, 0},
    {IA32_ENERGY_PERF_BIAS, 6, 0xf},
    {IA32_PACKAGE_THERM_STATUS, THERM_STATUS_VALID, 0xaaa},
    {IA32_PACKAGE_THERM_INTERRUPT, 0, 0x1ffff17},
    {MSR_LER_FROM_LIP, 0, 0},
    {MSR_LER_TO_LIP, 0, 0},
    {MSR_POWER_CTL, 0, 3},
    {IA32_PEBS_ENABLE, 0, 0},
    {MSR_PEBS_LD_LAT, 0, 0xffff},
    {MSR_PEBS_FRONTEND, 0, 0x7fffff},
    {IA32_DS_AREA, 0, ANY},
};

const StoredMsr *find_stored(uint32_t index)
{
    for (const StoredMsr &msr : stored_msrs)
        if (msr.index == index)
            return &msr;
    return nullptr;
}

bool is_hidden(const Processor &p, uint32_t index)
{
    for (uint32_t hidden : p.own.hide_msrs)
        if (hidden == index)
            return true;
    return false;
}

PlatformTime platform_now()
{
    PlatformTime now;

    now.ticks = bx_pc_system.time_ticks();
    for (unsigned n = 0; n < processor_count(); n++)
        now.instructions += processor(n).events.instructions();
    return now;
}

// The knobs' registers, which the model itself does not have.
bool is_extra(const Processor &p, uint32_t index)
{
    for (const ExtraMsr &msr : p.own.msrs)
        if (msr.index == index)
            return true;
    return false;
}

constexpr Bit32u CPUID_FEATURES = 1;
constexpr Bit32u CPUID_POWER = 6;
constexpr Bit32u CPUID_PERFMON = 0xa;
constexpr Bit32u CPUID_TSC = 0x15;
constexpr Bit32u CPUID_FREQUENCY = 0x16;
constexpr Bit32u CPUID_EXTENDED = 0x80000000;  // EAX: the highest extended leaf
constexpr Bit32u FEATURES_ECX_PDCM = 1u << 15;
constexpr Bit32u POWER_EAX_TURBO = 1u << 1;

// What Bochs takes an answer for.
constexpr int BOCHS_FAULT = 0;
constexpr int BOCHS_DONE = 1;
constexpr int BOCHS_UNKNOWN = -1;

class Model : public bx_cpuid_t {
public:
    Model(BX_CPU_C *owner, bx_cpuid_t *inner, Processor &p)
        : bx_cpuid_t(owner), inner_(inner), p_(p)
    {
    }
    ~Model() override { delete inner_; }

    const char *get_name() const override { return inner_->get_name(); }
    Bit32u get_vmx_extensions_bitmask() const override
    {
        return inner_->get_vmx_extensions_bitmask();
    }
    void dump_cpuid() const override { inner_->dump_cpuid(); }
    void get_cpuid_leaf(Bit32u function, Bit32u subfunction, cpuid_function_t *leaf) const override;
    int rdmsr(Bit32u index, Bit64u *value) override;
    int wrmsr(Bit32u index, Bit64u value) override;

private:
    // The instruction at hand began in the other world: this is by an MSR list of VMX.
    bool in_msr_list() const
    {
        const struct tb_hot &hot = hot_of(p_.id);
        return hot.world != TB_WORLD_UNKNOWN && (hot.mode & TB_WORLD_ROOT) != hot.world;
    }

    bx_cpuid_t *inner_;
    Processor &p_;
};

void Model::get_cpuid_leaf(Bit32u function, Bit32u subfunction, cpuid_function_t *leaf) const
{
    inner_->get_cpuid_leaf(function, subfunction, leaf);
    if (!knobs().pmu) {
        if (function == CPUID_PERFMON)
            get_reserved_leaf(leaf);
        if (function == CPUID_FEATURES)
            leaf->ecx &= ~FEATURES_ECX_PDCM;
    }
    cpuid_function_t first, extended;
    inner_->get_cpuid_leaf(0, 0, &first);
    inner_->get_cpuid_leaf(CPUID_EXTENDED, 0, &extended);
    uint32_t last = knobs().pmu ? pmu_last_leaf(p_.own.pmu_shape, first.eax) : first.eax;
    CpuidResult result = {leaf->eax, leaf->ebx, leaf->ecx, leaf->edx};
    if (knobs().pmu)
        pmu_cpuid(p_.own.pmu_shape, first.eax, function, subfunction, &result);
    if (p_.own.arch_lbr)
        arch_lbr_cpuid(p_.own.arch_lbr, last, extended.eax, function, subfunction, &result);
    if (knobs().pt != PT_OFF)
        pt_cpuid(knobs().pt == PT_WITH_PTWRITE, function, subfunction, &result);
    get_leaf(leaf, result.eax, result.ebx, result.ecx, result.edx);
    Bit32u *const regs[] = {&leaf->eax, &leaf->ebx, &leaf->ecx, &leaf->edx};
    for (const ExtraCpuid &hidden : p_.own.hide_cpuid)
        if (hidden.leaf == function && hidden.subleaf == subfunction)
            *regs[hidden.reg] &= ~hidden.bits;
    for (const ExtraCpuid &extra : p_.own.cpuid)
        if (extra.leaf == function && extra.subleaf == subfunction)
            *regs[extra.reg] |= extra.bits;
    if (function == CPUID_POWER && knobs().platform.on && knobs().platform.turbo())
        leaf->eax |= POWER_EAX_TURBO;
    if (knobs().tsc_hz != 0) {
        // Crystal and TSC run at the same rate, the one that Bochs' clock really has.
        if (function == CPUID_TSC)
            get_leaf(leaf, 1, 1, knobs().tsc_hz, 0);
        if (function == CPUID_FREQUENCY)
            get_leaf(leaf, knobs().tsc_hz / 1000000, knobs().tsc_hz / 1000000, 0, 0);
    }
}

int to_bochs(MsrResult result)
{
    return result == MSR_DONE ? BOCHS_DONE : result == MSR_FAULT ? BOCHS_FAULT : BOCHS_UNKNOWN;
}

int Model::rdmsr(Bit32u index, Bit64u *result)
{
    uint64_t value = 0;
    MsrResult known = MSR_ABSENT;

    hot_count(hot_of(p_.id));
    if (is_hidden(p_, index))
        return BOCHS_UNKNOWN;
    if (knobs().pmu) {
        known = p_.pmu.read_msr(index, &value);
        if (known == MSR_ABSENT)
            known = p_.pebs.read_msr(index, &value);
    }
    if (known == MSR_ABSENT && (knobs().pmu || p_.own.arch_lbr))
        known = p_.records().read_msr(index, &value);
    if (known == MSR_ABSENT && p_.pt)
        known = p_.pt->read_msr(index, &value);
    if (p_.own.arch_lbr && index == IA32_PERF_CAPABILITIES)
        value |= PERF_CAP_LBR_FMT;
    if (known == MSR_ABSENT && index == IA32_DEBUGCTL) {
        value = p_.debugctl;
        known = MSR_DONE;
    }
    if (known == MSR_ABSENT && (index == IA32_MPERF || index == IA32_APERF)) {
        // Both count every cycle here; what is stored is the offset that software wrote.
        value = p_.events.instructions() + p_.storage[index];
        known = MSR_DONE;
    }
    if (known == MSR_ABSENT && index == MSR_SMI_COUNT && knobs().noise.on && !is_extra(p_, index)) {
        model_tsc(bx_pc_system.time_ticks());
        value = noise.smis();
        known = MSR_DONE;
    }
    if (known == MSR_ABSENT && knobs().platform.on && !is_extra(p_, index))
        known = p_.platform.read_msr(knobs().platform, index, platform_now(), &value);
    if (known == MSR_ABSENT && (find_stored(index) || is_extra(p_, index))) {
        value = p_.storage[index];
        if (!is_extra(p_, index))
            value |= p_.platform.also(knobs().platform, index);
        if (index == IA32_MISC_ENABLE && p_.pebs.format() != PEBS_OFF)
            value &= ~(MISC_ENABLE_BTS_UNAVAIL | MISC_ENABLE_PEBS_UNAVAIL);
        known = MSR_DONE;
    }
    *result = value;
    return to_bochs(known);
}

int Model::wrmsr(Bit32u index, Bit64u value)
{
    MsrResult known = MSR_ABSENT;

    hot_count(hot_of(p_.id));
    if (is_hidden(p_, index))
        return BOCHS_UNKNOWN;
    if (knobs().pmu) {
        // Not an instruction of its own, but the MSR list of a VM entry, which retires in root
        // mode.
        const struct tb_hot &hot = hot_of(p_.id);
        bool entry = in_msr_list() && hot.world == 0;
        p_.events.entering = entry ? hot.mode : MODE_COUNT;
        p_.pmu.look(p_.events.instructions());
        known = p_.pmu.write_msr(index, value);
        p_.events.entering = MODE_COUNT;
        if (known == MSR_ABSENT)
            known = p_.pebs.write_msr(index, value);
        p_.pmu.set_pebs(p_.pebs.counters());
    }
    if (known == MSR_ABSENT && (knobs().pmu || p_.own.arch_lbr))
        known = p_.records().write_msr(index, value);
    if (known == MSR_ABSENT && p_.pt)
        known = p_.pt->write_msr(index, value, in_msr_list());
    if (known == MSR_ABSENT && index == IA32_DEBUGCTL) {
        if (value & ~DEBUGCTL_VALID)
            return BOCHS_FAULT;
        // With architectural records bit 0 has no effect and stays 0.
        p_.debugctl = p_.own.arch_lbr ? value & ~DEBUGCTL_LBR : value;
        known = MSR_DONE;
    }
    if (known != MSR_ABSENT) {
        processor_plan(p_);
        return to_bochs(known);
    }
    if (index == IA32_MPERF || index == IA32_APERF) {
        p_.storage[index] = value - p_.events.instructions();
        return BOCHS_DONE;
    }
    const StoredMsr *stored = find_stored(index);
    if (is_extra(p_, index)) {
        if (index == IA32_PRED_CMD && (value & PRED_CMD_IBPB))
            p_.predictor.barrier();
        p_.storage[index] = value;
        return BOCHS_DONE;
    }
    if (!stored)
        return to_bochs(p_.platform.write_msr(knobs().platform, index, value));
    // SDM Vol. 2, "WRMSR": canonical, and by the width that the processor has, in use or not.
    if (index == IA32_DS_AREA &&
        !IsCanonicalToWidth(value, cpu->is_cpu_extension_supported(BX_ISA_LA57) ? 57 : 48))
        return BOCHS_FAULT;
    if (index == IA32_MISC_ENABLE)
        value = (value & ~MISC_ENABLE_READ_ONLY) | (stored->reset & MISC_ENABLE_READ_ONLY);
    else if (index == IA32_BIOS_SIGN_ID)
        value = stored->reset;
    else if (value & ~stored->writable)
        return BOCHS_FAULT;
    p_.storage[index] = value;
    return BOCHS_DONE;
}

}  // namespace

void model_install(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    cpu->cpuid = new Model(cpu, cpu->cpuid, p);
}

void model_reset(Processor &p)
{
    p.pmu.reset();
    p.lbr.reset();
    p.arch_lbr.reset();
    p.pebs.reset();
    p.platform.reset(platform_now());
    if (p.pt)
        p.pt->trace.reset();
    p.debugctl = 0;
    for (const StoredMsr &msr : stored_msrs)
        p.storage[msr.index] = msr.reset;
    model_reset_extra(p);
    BX_CPU(p.id)->ignore_bad_msrs = true;
    firmware_done = false;
    processor_plan(p);
}

void model_reset_extra(Processor &p)
{
    for (const ExtraMsr &msr : p.own.msrs)
        p.storage[msr.index] = msr.reset;
}

bool model_firmware_is_done() { return firmware_done; }

void model_firmware_done()
{
    firmware_done = true;
    noise.begin(bx_pc_system.time_ticks());
    if (!knobs().unknown_msrs_fault)
        return;
    for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++)
        BX_CPU(n)->ignore_bad_msrs = false;
}

void model_wrmsr_seen(uint32_t index)
{
    // Firmware and GRUB have no system calls; every 64-bit kernel sets them up early.
    if (index == IA32_LSTAR)
        model_firmware_done();
}

uint64_t model_tsc(uint64_t ticks)
{
    return knobs().noise.on ? noise.time(knobs().noise, ticks) : ticks;
}
