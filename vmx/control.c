/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One table of the VMX controls: those that PMUvisor needs, those that it uses if they exist, and
 * those that must be off. The functions check a processor against the table and compute the values
 * of the controls. They only read their arguments and log, so tests can run on the host.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility"; "VM-Execution Control Fields".
 */
#include "vmx/capability.h"

#include "console/log.h"
#include "experiment.h"
#include "lib/refusal.h"
#include "vmx.h"
#include "x86.h"

enum need {
    REQUIRED,        /* without this control, the start is refused */
    OPTIONAL,        /* on if the processor has this control */
    FOR_PMU,         /* on if the processor has this control, but only with pmu=on */
    FOR_NMI_EXITING, /* on while NMIs are trapped; policies msr and intercept need it */
    TO_STEP,         /* required; on only while the guest executes a single instruction */
    FOR_PT,          /* on if the guest gets Intel PT, see can_expose_pt() */
    FORBIDDEN,       /* if this control cannot be 0, the start is refused */
};

struct control_row {
    const char *name;
    enum control_set set;
    enum need need;
    uint32_t bit;
    uint32_t partner; /* a bit in SET_ENTRY or SET_EXIT that must be allowed as well; 0: none */
};

static const struct control_row rows[] = {
    {"activate secondary controls", SET_PRIMARY, REQUIRED, PRIMARY_SECONDARY_CONTROLS, 0},
    {"use MSR bitmaps", SET_PRIMARY, REQUIRED, PRIMARY_USE_MSR_BITMAPS, 0},
    {"use I/O bitmaps", SET_PRIMARY, REQUIRED, PRIMARY_USE_IO_BITMAPS, 0},
    {"enable EPT", SET_SECONDARY, REQUIRED, SECONDARY_ENABLE_EPT, 0},
    {"unrestricted guest", SET_SECONDARY, REQUIRED, SECONDARY_UNRESTRICTED_GUEST, 0},
    {"enable VPID", SET_SECONDARY, REQUIRED, SECONDARY_ENABLE_VPID, 0},
    {"save debug controls", SET_EXIT, REQUIRED, EXIT_SAVE_DEBUG_CONTROLS, 0},
    {"host address-space size", SET_EXIT, REQUIRED, EXIT_HOST_ADDRESS_SPACE_SIZE, 0},
    {"save IA32_PAT", SET_EXIT, REQUIRED, EXIT_SAVE_PAT, 0},
    {"load IA32_PAT at exit", SET_EXIT, REQUIRED, EXIT_LOAD_PAT, 0},
    {"save IA32_EFER", SET_EXIT, REQUIRED, EXIT_SAVE_EFER, 0},
    {"load IA32_EFER at exit", SET_EXIT, REQUIRED, EXIT_LOAD_EFER, 0},
    {"load debug controls", SET_ENTRY, REQUIRED, ENTRY_LOAD_DEBUG_CONTROLS, 0},
    {"IA-32e mode guest", SET_ENTRY, REQUIRED, ENTRY_IA32E_MODE_GUEST, 0},
    {"load IA32_PAT at entry", SET_ENTRY, REQUIRED, ENTRY_LOAD_PAT, 0},
    {"load IA32_EFER at entry", SET_ENTRY, REQUIRED, ENTRY_LOAD_EFER, 0},

    {"load GLOBAL_CTRL at entry", SET_ENTRY, FOR_PMU, ENTRY_LOAD_GLOBAL_CTRL,
     EXIT_LOAD_GLOBAL_CTRL},
    {"load GLOBAL_CTRL at exit", SET_EXIT, FOR_PMU, EXIT_LOAD_GLOBAL_CTRL, ENTRY_LOAD_GLOBAL_CTRL},
    {"save GLOBAL_CTRL at exit", SET_EXIT, FOR_PMU, EXIT_SAVE_GLOBAL_CTRL, ENTRY_LOAD_GLOBAL_CTRL},
    {"enable RDTSCP", SET_SECONDARY, OPTIONAL, SECONDARY_ENABLE_RDTSCP, 0},
    {"enable INVPCID", SET_SECONDARY, OPTIONAL, SECONDARY_ENABLE_INVPCID, 0},
    {"enable XSAVES/XRSTORS", SET_SECONDARY, OPTIONAL, SECONDARY_ENABLE_XSAVES, 0},
    {"enable user wait and pause", SET_SECONDARY, OPTIONAL, SECONDARY_ENABLE_USER_WAIT, 0},
    {"WBINVD exiting", SET_SECONDARY, OPTIONAL, SECONDARY_WBINVD_EXITING, 0},
    {"ENCLS exiting", SET_SECONDARY, OPTIONAL, SECONDARY_ENCLS_EXITING, 0},
    {"PEBS uses guest-physical addresses", SET_PRIMARY, OPTIONAL, PRIMARY_TERTIARY_CONTROLS, 0},
    {"load IA32_BNDCFGS", SET_ENTRY, OPTIONAL, ENTRY_LOAD_BNDCFGS, EXIT_CLEAR_BNDCFGS},
    {"clear IA32_BNDCFGS", SET_EXIT, OPTIONAL, EXIT_CLEAR_BNDCFGS, ENTRY_LOAD_BNDCFGS},
    {"load CET state at entry", SET_ENTRY, OPTIONAL, ENTRY_LOAD_CET, EXIT_LOAD_CET},
    {"load CET state at exit", SET_EXIT, OPTIONAL, EXIT_LOAD_CET, ENTRY_LOAD_CET},
    {"load guest IA32_LBR_CTL", SET_ENTRY, OPTIONAL, ENTRY_LOAD_LBR_CTL, EXIT_CLEAR_LBR_CTL},
    {"clear IA32_LBR_CTL", SET_EXIT, OPTIONAL, EXIT_CLEAR_LBR_CTL, ENTRY_LOAD_LBR_CTL},

    {"NMI exiting", SET_PIN, FOR_NMI_EXITING, PIN_NMI_EXITING, 0},
    {"virtual NMIs", SET_PIN, FOR_NMI_EXITING, PIN_VIRTUAL_NMIS, 0},
    {"NMI-window exiting", SET_PRIMARY, FOR_NMI_EXITING, PRIMARY_NMI_WINDOW_EXITING, 0},

    {"monitor trap flag", SET_PRIMARY, TO_STEP, PRIMARY_MONITOR_TRAP_FLAG, 0},

    {"PT uses guest-physical addresses", SET_SECONDARY, FOR_PT, SECONDARY_PT_GUEST_PHYSICAL, 0},
    {"conceal VMX from PT", SET_SECONDARY, FOR_PT, SECONDARY_CONCEAL_VMX_FROM_PT, 0},
    {"clear IA32_RTIT_CTL", SET_EXIT, FOR_PT, EXIT_CLEAR_RTIT_CTL, 0},
    {"conceal exits from PT", SET_EXIT, FOR_PT, EXIT_CONCEAL_FROM_PT, 0},
    {"load IA32_RTIT_CTL", SET_ENTRY, FOR_PT, ENTRY_LOAD_RTIT_CTL, 0},
    {"conceal entries from PT", SET_ENTRY, FOR_PT, ENTRY_CONCEAL_FROM_PT, 0},

    {"external-interrupt exiting", SET_PIN, FORBIDDEN, PIN_EXTERNAL_INTERRUPT_EXITING, 0},
    {"NMI exiting", SET_PIN, FORBIDDEN, PIN_NMI_EXITING, 0},
    {"HLT exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_HLT_EXITING, 0},
    {"RDPMC exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_RDPMC_EXITING, 0},
    {"RDTSC exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_RDTSC_EXITING, 0},
    {"CR3-load exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_CR3_LOAD_EXITING, 0},
    {"CR3-store exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_CR3_STORE_EXITING, 0},
    {"MOV-DR exiting", SET_PRIMARY, FORBIDDEN, PRIMARY_MOV_DR_EXITING, 0},
};

/* A capability that is no control, and that PMUvisor needs. */
struct capability_row {
    const char *name;
    const char *where; /* the bits that report the capability */
    uint64_t found;    /* the value of these bits on this processor */
    uint64_t wanted;   /* their value if the processor has the capability */
    const char *remedy;
};

/* The default1 class: reserved controls that must be 1, and controls that the SDM lists with them.
 * CR3-load and CR3-store exiting are left out, because the newer capability MSRs allow them to be
 * 0. */
static const uint32_t default1[SET_COUNT] = {
    [SET_PIN] = 0x00000016,
    [SET_PRIMARY] = 0x0401e172 & ~(uint32_t)(PRIMARY_CR3_LOAD_EXITING | PRIMARY_CR3_STORE_EXITING),
    [SET_EXIT] = 0x00036dff,
    [SET_ENTRY] = 0x000011ff,
};

static const char *const set_msr[SET_COUNT] = {
    [SET_PIN] = "IA32_VMX_PINBASED_CTLS",         [SET_PRIMARY] = "IA32_VMX_PROCBASED_CTLS",
    [SET_SECONDARY] = "IA32_VMX_PROCBASED_CTLS2", [SET_EXIT] = "IA32_VMX_EXIT_CTLS",
    [SET_ENTRY] = "IA32_VMX_ENTRY_CTLS",
};

#define USE_ANOTHER "use a processor, or an outer hypervisor, that has it"

uint32_t vmx_adjust_controls(uint64_t allowed, uint32_t want)
{
    return (want | (uint32_t)allowed) & (uint32_t)(allowed >> 32);
}

bool vmx_allows_control(const struct vmx_capability *c, enum control_set set, uint32_t bit)
{
    return (c->allowed[set] >> 32 & bit) != 0;
}

bool has_global_ctrl_erratum(uint32_t signature)
{
    static const uint8_t nehalem_westmere[] = {0x1a, 0x1e, 0x2e, 0x25, 0x2c};

    for (unsigned i = 0; i < sizeof(nehalem_westmere); i++)
        if (SIGNATURE_FAMILY(signature) == 6 && SIGNATURE_MODEL(signature) == nehalem_westmere[i])
            return true;
    return false;
}

static bool is_control_available(const struct vmx_capability *c, const struct control_row *row)
{
    enum control_set other = row->set == SET_EXIT ? SET_ENTRY : SET_EXIT;

    if (!vmx_allows_control(c, row->set, row->bit) ||
        (row->need == FOR_PMU && c->global_ctrl_erratum))
        return false;
    /* "save GLOBAL_CTRL" is used only with both load controls. `partner` names only the entry's
     * load control. */
    if (row->set == SET_EXIT && row->bit == EXIT_SAVE_GLOBAL_CTRL &&
        !vmx_allows_control(c, SET_EXIT, EXIT_LOAD_GLOBAL_CTRL))
        return false;
    return row->partner == 0 || vmx_allows_control(c, other, row->partner);
}

/* Returns whether the guest gets Intel PT. This takes all FOR_PT controls: without one of them, the
 * guest's traces would include root mode, or the processor would write traces past the EPT. */
static bool can_expose_pt(const struct vmx_capability *c, const struct options *o)
{
    bool whole = o->pt && o->pmu && c->misc & VMX_MISC_PT;

    for (unsigned i = 0; i < LENGTH_OF(rows); i++)
        whole &= rows[i].need != FOR_PT || vmx_allows_control(c, rows[i].set, rows[i].bit);
    return whole;
}

static bool is_control_wanted(const struct vmx_capability *c, const struct options *o,
                              const struct control_row *row)
{
    return row->need == REQUIRED || (row->need == FOR_PT && can_expose_pt(c, o)) ||
           ((row->need == OPTIONAL || (row->need == FOR_PMU && o->pmu)) &&
            is_control_available(c, row));
}

bool vmx_require_control(const struct vmx_capability *c, enum control_set set, uint32_t bit,
                         const char *name, struct refusal *r)
{
    return vmx_allows_control(c, set, bit) ||
           refuse(r, REFUSE_UNSUPPORTED,
                  "VMX control \"%s\" is missing (%s bit %u may not be 1); PMUvisor needs "
                  "it: " USE_ANOTHER,
                  name, set_msr[set], (unsigned)__builtin_ctz(bit));
}

bool vmx_controls_choose(const struct vmx_capability *c, const struct options *o,
                         struct vmx_controls *out, struct refusal *r)
{
    uint32_t want[SET_COUNT] = {0};
    uint32_t tolerated[SET_COUNT] = {0}; /* forced bits that do no harm, see vmcs_setup.c */

    if (!o->pmu || o->policy == POLICY_INTERCEPT)
        tolerated[SET_PRIMARY] = PRIMARY_RDPMC_EXITING;
    for (unsigned i = 0; i < LENGTH_OF(rows); i++) {
        const struct control_row *row = &rows[i];
        bool must = row->need == REQUIRED || row->need == TO_STEP ||
                    (row->need == FOR_NMI_EXITING && o->policy != POLICY_MSR_NMI);
        if (must && !vmx_require_control(c, row->set, row->bit, row->name, r))
            return false;
        if (row->need == FORBIDDEN &&
            (uint32_t)c->allowed[row->set] & row->bit & ~tolerated[row->set])
            return refuse(r, REFUSE_UNSUPPORTED,
                          "VMX control \"%s\" cannot be turned off (%s bit %u must be 1); PMUvisor "
                          "needs it off: use a processor, or an outer hypervisor, that allows it",
                          row->name, set_msr[row->set], (unsigned)__builtin_ctz(row->bit));
        if (is_control_wanted(c, o, row))
            want[row->set] |= row->bit;
    }
    for (unsigned set = 0; set < SET_COUNT; set++) {
        uint32_t forced = (uint32_t)c->allowed[set] & ~(want[set] | default1[set] | tolerated[set]);
        if (forced != 0)
            return refuse(
                r, REFUSE_UNSUPPORTED,
                "a VMX control that PMUvisor does not handle cannot be turned off (%s bit "
                "%u must be 1, wanted 0): use a processor, or an outer hypervisor, that "
                "allows it",
                set_msr[set], (unsigned)__builtin_ctz(forced));
        out->value[set] = vmx_adjust_controls(c->allowed[set], want[set]);
    }

    const struct capability_row needed[] = {
        {"write-back memory for VMX's structures", "IA32_VMX_BASIC bits 53:50",
         c->basic >> VMX_BASIC_MEMORY_TYPE_SHIFT & VMX_BASIC_MEMORY_TYPE_MASK,
         VMX_BASIC_MEMORY_TYPE_WB, USE_ANOTHER},
        {"the wait-for-SIPI activity state", "IA32_VMX_MISC bit 8",
         (c->misc & VMX_MISC_ACTIVITY_WAIT_FOR_SIPI) != 0, 1, USE_ANOTHER},
        {"Execute Disable", "CPUID.80000001H:EDX bit 20", c->execute_disable, 1,
         "turn it on in the firmware setup (XD, NX or Execute Disable Bit)"},
        {"EPT with a 4-level walk", "IA32_VMX_EPT_VPID_CAP bit 6",
         (c->ept_vpid & EPT_CAP_WALK_4) != 0, 1, USE_ANOTHER},
        {"write-back memory for EPT paging structures", "IA32_VMX_EPT_VPID_CAP bit 14",
         (c->ept_vpid & EPT_CAP_MEMORY_WB) != 0, 1, USE_ANOTHER},
        {"an EPT page size of 2 MiB", "IA32_VMX_EPT_VPID_CAP bit 16",
         (c->ept_vpid & EPT_CAP_PAGE_2M) != 0, 1, USE_ANOTHER},
        {"INVEPT of all contexts", "IA32_VMX_EPT_VPID_CAP bit 26",
         (c->ept_vpid & EPT_CAP_INVEPT_ALL) != 0, 1, USE_ANOTHER},
    };
    for (unsigned i = 0; i < LENGTH_OF(needed); i++)
        if (needed[i].found != needed[i].wanted)
            return refuse(r, REFUSE_UNSUPPORTED, "%s is missing (%s is %lu, wanted %lu): %s",
                          needed[i].name, needed[i].where, needed[i].found, needed[i].wanted,
                          needed[i].remedy);
    FOR_EACH_EXPERIMENT(e)
        if (e->possible != NULL && !e->possible(c, r))
            return false;
    return true;
}

void vmx_capability_print(const struct vmx_capability *c, const struct options *o)
{
    static const char *const titles[] = {
        [REQUIRED] = "needed, all there:",
        [OPTIONAL] = "optional (CPUID hides what needs a missing one):",
        [FOR_PMU] = "optional, for the PMU (without: MSR lists):",
        [FOR_NMI_EXITING] = "for NMIs that are not passed through:",
        [TO_STEP] = "needed, on for single instructions:",
        [FOR_PT] = "for Intel PT:"};

    for (enum need need = REQUIRED; need <= FOR_PT; need++) {
        log_printf("VMX controls %s", titles[need]);
        for (unsigned i = 0, first = 1; i < LENGTH_OF(rows); i++) {
            if (rows[i].need != need)
                continue;
            bool used = need >= FOR_NMI_EXITING ? is_control_available(c, &rows[i])
                                                : is_control_wanted(c, o, &rows[i]);
            log_printf("%s %s%s", first ? "" : ",", rows[i].name, used ? "" : " (no)");
            first = 0;
        }
        log_printf("\n");
    }
    log_printf("EPT pages: 4 KiB, 2 MiB%s; physical addresses: %u bits; PMU version %u; PT %s%s\n",
               c->ept_vpid & EPT_CAP_PAGE_1G ? ", 1 GiB" : "", c->physical_address_bits,
               c->pmu_version, can_expose_pt(c, o) ? "is the guest's" : "is hidden",
               c->misc & VMX_MISC_PT ? "" : " (CPUID leaf 14H, or IA32_VMX_MISC bit 14)");
}
