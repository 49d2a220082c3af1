/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Names what is wrong in the guest-state area. The processor only says that something is.
 * SDM Vol. 3, "Checks on the Guest State Area", section by section in the SDM's order.
 */
#include "check_guest.h"

#include "log.h"
#include "msr.h"
#include "vmcs.h"
#include "vmx.h"
#include "x86.h"

#define AR_RESERVED (BITS(11, 8) | BITS(31, 17))
#define TYPE_ACCESSED BIT(0)
#define TYPE_CODE BIT(3)
#define TYPE_BUSY_TSS_64 11
#define TYPE_BUSY_TSS_16 3
#define SELECTOR_TI BIT(2)
#define DEBUGCTL_RESERVED (BITS(63, 16) | BITS(5, 3))
#define DEBUGCTL_BUS_LOCK BIT(2) /* reserved where CPUID.7:ECX[24] is 0 */
#define CPUID_LEAF_EXTENDED 7
#define CPUID_7_ECX_BUS_LOCK BIT(24)
#define CPUID_LEAF_ADDRESS_SIZES 0x80000008u
#define EFER_RESERVED (~(uint64_t)(EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE))
#define ACTIVITY_LAST ACTIVITY_WAIT_FOR_SIPI
#define INTERRUPTIBILITY_RESERVED BITS(31, 5)

static bool expect(bool ok, const char *what, uint64_t found)
{
    if (!ok)
        log_printf("pmuvisor: guest state is wrong: %s (found 0x%lx)\n", what, found);
    return ok;
}

/* For the linear addresses that the processor has, whatever the guest's paging mode is. */
static bool canonical(uint64_t address)
{
    unsigned unused = 64 - (cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax >> 8 & 0xff);

    return (uint64_t)((int64_t)(address << unused) >> unused) == address;
}

static bool check_control_registers(bool ia32e)
{
    uint64_t cr0 = vmcs_read_natural(VMCS_GUEST_CR0);
    uint64_t cr4 = vmcs_read_natural(VMCS_GUEST_CR4);
    uint64_t cr4_fixed0 = rdmsr(IA32_VMX_CR4_FIXED0);
    uint64_t cr4_fixed1 = rdmsr(IA32_VMX_CR4_FIXED1);
    uint64_t cr0_fixed0 = rdmsr(IA32_VMX_CR0_FIXED0) & ~(uint64_t)(CR0_PE | CR0_PG);
    uint64_t debugctl = vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL);
    uint64_t efer = vmcs_read_64(VMCS_GUEST_IA32_EFER);
    uint64_t debugctl_reserved = DEBUGCTL_RESERVED;
    bool ok = true;

    if (!(cpuid(CPUID_LEAF_EXTENDED, 0).ecx & CPUID_7_ECX_BUS_LOCK))
        debugctl_reserved |= DEBUGCTL_BUS_LOCK;
    ok &= expect((cr0 & cr0_fixed0) == cr0_fixed0, "CR0 lacks bits of IA32_VMX_CR0_FIXED0", cr0);
    ok &= expect(!(cr0 & CR0_PG) || cr0 & CR0_PE, "CR0.PG without CR0.PE", cr0);
    ok &= expect((cr4 & cr4_fixed0) == cr4_fixed0, "CR4 lacks bits of IA32_VMX_CR4_FIXED0", cr4);
    ok &= expect(!(cr4 & ~cr4_fixed1), "CR4 has bits outside IA32_VMX_CR4_FIXED1", cr4);
    ok &= expect(!(debugctl & debugctl_reserved), "IA32_DEBUGCTL has reserved bits", debugctl);
    if (ia32e) {
        ok &= expect(cr0 & CR0_PG, "IA-32e mode guest without CR0.PG", cr0);
        ok &= expect(cr4 & CR4_PAE, "IA-32e mode guest without CR4.PAE", cr4);
    } else {
        ok &= expect(!(cr4 & CR4_PCIDE), "CR4.PCIDE outside IA-32e mode", cr4);
    }
    ok &= expect(!(efer & EFER_RESERVED), "IA32_EFER has reserved bits", efer);
    ok &= expect(!!(efer & EFER_LMA) == ia32e, "EFER.LMA differs from \"IA-32e mode guest\"", efer);
    ok &= expect(!(cr0 & CR0_PG) || !!(efer & EFER_LMA) == !!(efer & EFER_LME),
                 "EFER.LME differs from EFER.LMA with paging on", efer);
    return ok;
}

struct segment {
    const char *name;
    enum vmcs_16 selector;
    enum vmcs_32 limit, rights;
    enum vmcs_natural base;
};

#define SEGMENT(name)                                                                              \
    {#name, VMCS_GUEST_##name##_SELECTOR, VMCS_GUEST_##name##_LIMIT,                               \
     VMCS_GUEST_##name##_ACCESS_RIGHTS, VMCS_GUEST_##name##_BASE}
static const struct segment segments[] = {SEGMENT(CS), SEGMENT(SS), SEGMENT(DS), SEGMENT(ES),
                                          SEGMENT(FS), SEGMENT(GS), SEGMENT(LDTR), SEGMENT(TR)};
#undef SEGMENT
enum { CS, SS, DS, ES, FS, GS, LDTR, TR };

static bool check_segment(unsigned which, bool ia32e)
{
    const struct segment *s = &segments[which];
    uint32_t rights = vmcs_read_32(s->rights);
    uint32_t limit = vmcs_read_32(s->limit);
    uint64_t base = vmcs_read_natural(s->base);
    uint32_t type = (uint32_t)(rights & ACCESS_TYPE);
    bool must_be_usable = which == CS || which == TR;
    bool ok = true;

    if (rights & ACCESS_UNUSABLE)
        return expect(!must_be_usable, s->name, rights);
    ok &= expect(!(rights & AR_RESERVED), "segment access rights have reserved bits", rights);
    ok &= expect(rights & ACCESS_PRESENT, "segment is not present", rights);
    ok &= expect(!!(rights & ACCESS_CODE_DATA) == (which < LDTR), "segment has the wrong S bit",
                 rights);
    ok &= expect((limit & 0xfff) == 0xfff || !(rights & ACCESS_GRANULARITY),
                 "segment limit has low bits 0 with G = 1", limit);
    ok &= expect(!(limit >> 20) || rights & ACCESS_GRANULARITY,
                 "segment limit has high bits with G = 0", limit);
    if (which == CS) {
        ok &= expect(type & TYPE_ACCESSED && type & TYPE_CODE, "CS is not accessed code", rights);
        ok &= expect(!(ia32e && rights & ACCESS_LONG && rights & ACCESS_DB), "CS has L and D",
                     rights);
    } else if (which < LDTR) {
        ok &= expect(type & TYPE_ACCESSED, "data segment is not accessed", rights);
    } else if (which == TR) {
        ok &= expect(type == TYPE_BUSY_TSS_64 || (!ia32e && type == TYPE_BUSY_TSS_16),
                     "TR is not a busy TSS", rights);
        ok &= expect(!(vmcs_read_16(s->selector) & SELECTOR_TI), "TR selector has TI set",
                     vmcs_read_16(s->selector));
    }
    if (which == FS || which == GS || which >= LDTR)
        ok &= expect(canonical(base), "segment base is not canonical", base);
    if (!ok)
        log_printf("pmuvisor: the segment is %s\n", s->name);
    return ok;
}

static bool check_rest(bool ia32e)
{
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);
    uint64_t rflags = vmcs_read_natural(VMCS_GUEST_RFLAGS);
    uint32_t activity = vmcs_read_32(VMCS_GUEST_ACTIVITY_STATE);
    uint32_t blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    uint64_t link = vmcs_read_64(VMCS_VMCS_LINK_POINTER);
    uint64_t gdtr = vmcs_read_natural(VMCS_GUEST_GDTR_BASE);
    uint64_t idtr = vmcs_read_natural(VMCS_GUEST_IDTR_BASE);
    bool ok = true;

    ok &= expect(canonical(gdtr), "GDTR base is not canonical", gdtr);
    ok &= expect(canonical(idtr), "IDTR base is not canonical", idtr);
    ok &= expect(!ia32e || canonical(rip), "RIP is not canonical", rip);
    ok &= expect(rflags & RFLAGS_FIXED, "RFLAGS bit 1 is 0", rflags);
    ok &= expect(activity <= ACTIVITY_LAST, "activity state is unknown", activity);
    ok &= expect(!(blocking & INTERRUPTIBILITY_RESERVED), "interruptibility has reserved bits",
                 blocking);
    ok &= expect((blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS)) !=
                     (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS),
                 "blocking by STI and by MOV SS at once", blocking);
    ok &= expect(!(blocking & BLOCKING_BY_STI) || rflags & RFLAGS_IF,
                 "blocking by STI with RFLAGS.IF = 0", blocking);
    ok &= expect(link == ~0ULL, "VMCS link pointer is not all ones", link);
    return ok;
}

bool check_guest_state(void)
{
    bool ia32e = vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_IA32E_MODE_GUEST;
    bool ok = check_control_registers(ia32e);

    for (unsigned i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
        ok &= check_segment(i, ia32e);
    return check_rest(ia32e) && ok;
}
