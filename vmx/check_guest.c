/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Names what is wrong in the guest-state area. The processor only says that something is.
 * SDM Vol. 3, "Checks on the Guest State Area", section by section in the SDM's order.
 */
#include "exit.h"

struct check {
    bool ok;
    const char *wrong;
    uint64_t found;
};

static bool all_right(const char *what, const struct check *checks, size_t bytes)
{
    bool right = true;

    for (const struct check *c = checks; c < checks + bytes / sizeof(*checks); c++) {
        if (!c->ok)
            log_printf("pmuvisor: guest state is wrong: %s%s (found 0x%lx)\n", what, c->wrong,
                       c->found);
        right &= c->ok;
    }
    return right;
}

/* For the linear addresses that the processor has, whatever the guest's paging mode is. */
static bool canonical(uint64_t address)
{
    unsigned unused = 64 - (cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax >> 8 & 0xff);

    return (uint64_t)((int64_t)(address << unused) >> unused) == address;
}

/* Whether all bits of `fixed` are in `value`. */
static bool has(uint64_t value, uint64_t fixed) { return (value & fixed) == fixed; }

static bool check_registers(bool ia32e)
{
    uint64_t cr0 = vmcs_read_natural(VMCS_GUEST_CR0), cr4 = vmcs_read_natural(VMCS_GUEST_CR4);
    uint64_t debugctl = vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL);
    uint64_t efer = vmcs_read_64(VMCS_GUEST_IA32_EFER);
    uint64_t gdtr = vmcs_read_natural(VMCS_GUEST_GDTR_BASE);
    uint64_t idtr = vmcs_read_natural(VMCS_GUEST_IDTR_BASE);
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);
    uint64_t rflags = vmcs_read_natural(VMCS_GUEST_RFLAGS);
    uint32_t activity = vmcs_read_32(VMCS_GUEST_ACTIVITY_STATE);
    uint32_t blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    uint64_t link = vmcs_read_64(VMCS_VMCS_LINK_POINTER);
    bool bus_lock = cpuid(CPUID_LEAF_EXTENDED, 0).ecx & CPUID_7_ECX_BUS_LOCK;
    bool cs_long = vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS) & ACCESS_LONG;
    bool paging = cr0 & CR0_PG, lma = efer & EFER_LMA, lme = efer & EFER_LME;
    const struct check checks[] = {
        {has(cr0, rdmsr(IA32_VMX_CR0_FIXED0) & ~(uint64_t)(CR0_PE | CR0_PG)),
         "CR0 lacks bits of IA32_VMX_CR0_FIXED0", cr0},
        {!paging || cr0 & CR0_PE, "CR0.PG without CR0.PE", cr0},
        {has(cr4, rdmsr(IA32_VMX_CR4_FIXED0)), "CR4 lacks bits of IA32_VMX_CR4_FIXED0", cr4},
        {has(rdmsr(IA32_VMX_CR4_FIXED1), cr4), "CR4 has bits outside IA32_VMX_CR4_FIXED1", cr4},
        {!(debugctl & (DEBUGCTL_RESERVED | (bus_lock ? 0 : DEBUGCTL_BUS_LOCK))),
         "IA32_DEBUGCTL has reserved bits", debugctl},
        {!ia32e || paging, "IA-32e mode guest without CR0.PG", cr0},
        {!ia32e || cr4 & CR4_PAE, "IA-32e mode guest without CR4.PAE", cr4},
        {ia32e || !(cr4 & CR4_PCIDE), "CR4.PCIDE outside IA-32e mode", cr4},
        {!(efer & EFER_RESERVED), "IA32_EFER has reserved bits", efer},
        {lma == ia32e, "EFER.LMA differs from \"IA-32e mode guest\"", efer},
        {!paging || lma == lme, "EFER.LME differs from EFER.LMA with paging on", efer},
        {canonical(gdtr), "GDTR base is not canonical", gdtr},
        {canonical(idtr), "IDTR base is not canonical", idtr},
        {cs_long ? canonical(rip) : rip <= UINT32_MAX,
         "RIP is not canonical, or above 4 GiB outside 64-bit mode", rip},
        {rflags & RFLAGS_FIXED, "RFLAGS bit 1 is 0", rflags},
        {activity <= ACTIVITY_WAIT_FOR_SIPI, "activity state is unknown", activity},
        {!(blocking & BLOCKING_RESERVED), "interruptibility has reserved bits", blocking},
        {!has(blocking, BLOCKING_BY_STI | BLOCKING_BY_MOV_SS),
         "blocking by STI and by MOV SS at once", blocking},
        {!(blocking & BLOCKING_BY_STI) || rflags & RFLAGS_IF,
         "blocking by STI with RFLAGS.IF = 0", blocking},
        {link == ~0ULL, "VMCS link pointer is not all ones", link},
    };
    return all_right("", checks, sizeof(checks));
}

static bool check_segment(enum segment s, bool ia32e)
{
    static const char *const names[] = {"ES: ", "CS: ", "SS: ",   "DS: ",
                                        "FS: ", "GS: ", "LDTR: ", "TR: "};
    uint64_t selector = vmcs_read_16(SEGMENT_FIELD(VMCS_GUEST_ES_SELECTOR, s));
    uint64_t base = vmcs_read_natural(SEGMENT_FIELD(VMCS_GUEST_ES_BASE, s));
    uint32_t limit = vmcs_read_32(SEGMENT_FIELD(VMCS_GUEST_ES_LIMIT, s));
    uint32_t rights = vmcs_read_32(SEGMENT_FIELD(VMCS_GUEST_ES_ACCESS_RIGHTS, s));
    uint32_t type = (uint32_t)(rights & ACCESS_TYPE);
    bool usable = !(rights & ACCESS_UNUSABLE), granular = rights & ACCESS_GRANULARITY;
    bool cs = s == SEGMENT_CS, tr = s == SEGMENT_TR, memory = s < SEGMENT_LDTR;
    bool any_base = s < SEGMENT_FS;
    const struct check checks[] = {
        {usable || (!cs && !tr), "unusable", rights},
        {!(rights & ACCESS_RESERVED), "access rights have reserved bits", rights},
        {rights & ACCESS_PRESENT, "not present", rights},
        {!!(rights & ACCESS_CODE_DATA) == memory, "wrong S bit", rights},
        {(limit & 0xfff) == 0xfff || !granular, "limit has low bits 0 with G = 1", limit},
        {!(limit >> 20) || granular, "limit has high bits with G = 0", limit},
        {!cs || has(type, TYPE_ACCESSED | TYPE_CODE), "not accessed code", rights},
        {!cs || !ia32e || !has(rights, ACCESS_LONG | ACCESS_DB), "both L and D", rights},
        {!memory || type & TYPE_ACCESSED, "not accessed", rights},
        {!tr || type == TYPE_BUSY_TSS_64 || (!ia32e && type == TYPE_BUSY_TSS_16),
         "not a busy TSS", rights},
        {!tr || !(selector & SELECTOR_TI), "selector has TI set", selector},
        {any_base || canonical(base), "base is not canonical", base},
    };
    return all_right(names[s], checks, usable ? sizeof(checks) : sizeof(checks[0]));
}

bool check_guest_state(void)
{
    bool ia32e = vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_IA32E_MODE_GUEST;
    bool right = check_registers(ia32e);

    for (enum segment s = SEGMENT_ES; s <= SEGMENT_TR; s++)
        right &= check_segment(s, ia32e);
    return right;
}
