/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Leaving x2APIC mode, which goes through the disabled state, and what comes while the local APIC
 * is globally disabled. SDM Vol. 3, "x2APIC State Transitions", "Enabling or Disabling the Local
 * APIC", "Local APIC State After Power-Up or Reset".
 */
#include "host.h"
#include "smp.h"

#include "console/log.h"
#include "fuzz.h"
#include "hypercall.h"

#define MODES (APIC_BASE_EN | APIC_BASE_EXTD)
#define EXIT_REASON_CPUID 10
#define PIN_NMIS 20
#define WAIT 1000 /* iterations; an NMI of one's own takes a few instructions */
#define GAP 20    /* microseconds: far more than an IPI takes */
#define X2APIC_ID 0x802
#define WINDOW_ENTRY 1 /* of the PML4 */
#define LARGE_PAGE (2ULL << 20)
#define HPET 0xfed00000ULL
#define HPET_COMPARATOR_0 0x108

/* What is written in x2APIC mode, and what is there behind a disable. */
static const struct {
    uint32_t offset, spoilt, reset;
} registers[] = {
    {APIC_TPR, 0x20, 0},          {APIC_SVR, 0x1ff, 0xff},
    {0x320, 0x100e0, LVT_MASKED}, {0x330, 0x100e1, LVT_MASKED},
    {0x340, 0x400, LVT_MASKED},   {0x350, 0x10700, LVT_MASKED},
    {0x360, 0x400, LVT_MASKED},   {0x370, 0x100e3, LVT_MASKED},
    {0x380, 0x7fffffff, 0},       {0x3e0, 0xb, 0},
};

static uint64_t mode(void) { return rdmsr(IA32_APIC_BASE) & MODES; }
static uint64_t base_in(uint64_t wanted) { return (rdmsr(IA32_APIC_BASE) & ~MODES) | wanted; }

/* False: the write is refused. */
static bool to_mode(uint64_t wanted) { return wrmsr_try(IA32_APIC_BASE, base_in(wanted)); }

/* As apic_self_nmi(), and whether one NMI came of it. */
static bool self_nmi_comes(void)
{
    uint64_t before = nmi.count;

    apic_self_nmi();
    linger(WAIT);
    return nmi.count == before + 1;
}

static void expect(uint64_t *wrong, bool holds, const char *what)
{
    if (holds)
        return;
    ++*wrong;
    tap_note("%s (IA32_APIC_BASE is 0x%lx)", what, rdmsr(IA32_APIC_BASE));
}

/* From whichever mode it is in: to x2APIC mode, out of it, and all transitions that are illegal on
 * this way. Leaves it in xAPIC mode. */
void test_apic_leave(const struct job *job)
{
    uint64_t wrong = 0, value;

    if (!apic_enter_x2()) {
        tap_skip(job->name, "the processor has no x2APIC");
        return;
    }
    uint32_t id = apic_id(), svr = apic_read(APIC_SVR);

    expect(&wrong, !to_mode(APIC_BASE_EN) && apic_x2(), "x2APIC to xAPIC mode at once");
    expect(&wrong, !to_mode(APIC_BASE_EXTD) && apic_x2(), "x2APIC mode to EXTD without EN");
    for (unsigned i = 0; i < LENGTH_OF(registers); i++)
        apic_write(registers[i].offset, registers[i].spoilt);
    expect(&wrong, to_mode(0) && mode() == 0, "x2APIC mode to disabled is refused");
    expect(&wrong, !rdmsr_try(X2APIC_ID, &value), "disabled, and x2APIC registers answer");
    expect(&wrong, !to_mode(MODES) && mode() == 0, "disabled to x2APIC mode at once");
    expect(&wrong, !to_mode(APIC_BASE_EXTD) && mode() == 0, "disabled to EXTD without EN");
    expect(&wrong, to_mode(APIC_BASE_EN) && mode() == APIC_BASE_EN, "disabled to xAPIC mode");
    if (mode() != APIC_BASE_EN) {
        tap_result(false, job->name, "there is no way back");
        return;
    }
    expect(&wrong, apic_id() == id, "another APIC ID");
    for (unsigned i = 0; i < LENGTH_OF(registers); i++) {
        uint32_t found = apic_read(registers[i].offset);
        if (found == registers[i].reset)
            continue;
        wrong++;
        tap_note("register 0x%x is 0x%x, wanted 0x%x", registers[i].offset, found,
                 registers[i].reset);
    }
    apic_write(APIC_SVR, svr);
    expect(&wrong, self_nmi_comes(), "no NMI of its own in xAPIC mode");
    tap_result(wrong == 0, job->name, NULL);
}

/* `apic-off[:FIRST:POSITIONS]`: the APIC is globally disabled, and NMIs come by the processor's pin
 * while the guest runs: each arrives. Then, under a hypervisor, CPUID exits up to the FIRST, whose
 * root mode takes an NMI at its first instruction, the next one at its second, and so on: none
 * arrives twice. Leaves it in xAPIC mode. */
void test_apic_off(const struct job *job)
{
    uint64_t first = job->number[0], pin = 0, root = 0, wrong = 0;
    uint32_t svr = apic_read(APIC_SVR);

    wrmsr(IA32_APIC_BASE, base_in(0));
    for (unsigned i = 0; i < PIN_NMIS; i++) {
        uint64_t before = nmi.count;
        host_nmi_now();
        pin += nmi.count - before;
        expect(&wrong, nmi.count == before + 1, "the NMI did not come at once");
    }
    if (first != 0 && under_pmuvisor()) {
        uint64_t now = exits_of(EXIT_REASON_CPUID);
        expect(&wrong, now < first, "more exits than the first are over");
        while (++now < first)
            (void)cpuid(0, 0);
        for (uint64_t position = 0; position < job->number[1]; position++) {
            uint64_t before = nmi.count;
            (void)cpuid(0, 0);
            root += nmi.count - before;
            expect(&wrong, nmi.count - before <= 1, "more than one NMI at one exit");
        }
    }
    wrmsr(IA32_APIC_BASE, base_in(APIC_BASE_EN));
    expect(&wrong, mode() == APIC_BASE_EN, "it stays disabled");
    if (mode() == APIC_BASE_EN) {
        apic_write(APIC_SVR, svr);
        expect(&wrong, self_nmi_comes(), "no NMI of its own in xAPIC mode");
    }
    log_printf("apicoff: name=%s pin=%lu root=%lu\n", job->name, pin, root);
    tap_result(wrong == 0 && pin == PIN_NMIS, job->name, NULL);
}

static volatile bool disabled, enable;

static void stay_disabled(struct processor *self)
{
    uint32_t svr = apic_read(APIC_SVR);

    (void)self;
    wrmsr(IA32_APIC_BASE, base_in(0));
    disabled = true;
    while (!enable)
        __asm__ volatile("pause");
    wrmsr(IA32_APIC_BASE, base_in(APIC_BASE_EN));
    if (mode() == APIC_BASE_EN)
        apic_write(APIC_SVR, svr);
    disabled = false;
}

/* A processor whose APIC is disabled takes no IPI; enabled again, it does. */
void test_smp_apic_off(const struct job *job)
{
    uint64_t wrong = 0;

    for (unsigned i = 1; i < processor_count; i++) {
        struct processor *p = &processors[i];
        uint64_t nmis = p->nmis;
        enable = false;
        smp_leave_with(p, stay_disabled);
        while (!disabled)
            __asm__ volatile("pause");
        apic_send(p->apic_id, ICR_NMI | ICR_ASSERT);
        smp_delay(GAP);
        expect(&wrong, p->nmis == nmis, "an NMI reached a disabled APIC");
        enable = true;
        while (disabled)
            __asm__ volatile("pause");
        nmis = p->nmis;
        apic_send(p->apic_id, ICR_NMI | ICR_ASSERT);
        smp_delay(GAP);
        expect(&wrong, p->nmis == nmis + 1, "no NMI reached the APIC that was enabled again");
    }
    tap_result(wrong == 0, job->name, NULL);
}

static void page_store(uint32_t offset, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)(APIC_PAGE + offset) = value;
}

/* An INIT for it, where this one's APIC has no registers in memory. */
static void page_store_init(const struct processor *p)
{
    page_store(APIC_ICR_HIGH, p->apic_id << XAPIC_ID_SHIFT);
    page_store(APIC_ICR_LOW, ICR_INIT | ICR_LEVEL | ICR_ASSERT);
}

static bool refused(uint32_t index, uint64_t value)
{
    cpu_handlers(true);
    bool done = wrmsr_try(index, value);
    cpu_handlers(false);
    return !done;
}

/* The page and the MSRs of the ICR where they are none: a store to the page of an APIC that is
 * disabled, or in x2APIC mode, sends nothing, and the MSR faults in xAPIC mode. The processor that
 * would have had the INIT can be started afterwards. Leaves the APIC in xAPIC mode. */
void test_smp_apic_page(const struct job *job)
{
    uint64_t wrong = 0;
    uint32_t svr = apic_read(APIC_SVR);
    struct processor *p = &processors[1];
    uint64_t init = (uint64_t)p->apic_id << 32 | ICR_INIT | ICR_LEVEL | ICR_ASSERT;

    for (unsigned i = 0; i < 2; i++)
        expect(&wrong, refused(X2APIC_ICR, init), "WRMSR of the ICR in xAPIC mode");
    expect(&wrong, smp_restart(p, smp_page(0)), "no start after WRMSR of the ICR in xAPIC mode");
    wrmsr(IA32_APIC_BASE, base_in(0));
    page_store_init(p);
    wrmsr(IA32_APIC_BASE, base_in(APIC_BASE_EN));
    apic_write(APIC_SVR, svr);
    expect(&wrong, smp_restart(p, smp_page(0)), "no start after a store to a disabled APIC's page");
    if (apic_enter_x2()) {
        expect(&wrong, refused(X2APIC_ID, 1), "WRMSR of the ID");
        page_store_init(p);
        expect(&wrong, smp_restart(p, smp_page(0)), "no start after a store in x2APIC mode");
        wrmsr(IA32_APIC_BASE, base_in(0));
        wrmsr(IA32_APIC_BASE, base_in(APIC_BASE_EN));
        apic_write(APIC_SVR, svr);
    }
    tap_result(wrong == 0, job->name, NULL);
}

static uint64_t directory[TABLE_ENTRIES] __attribute__((aligned(TABLE_ENTRIES * 8)));

/* `apic-device:DONE`: a load from the APIC's page by code that is reached through a page table in a
 * device: the comparator of the HPET's timer 0, which keeps what is written. With apic=trap root
 * mode looks for the code by these tables, and must not read there: DONE is 0. Natively 1. (Where
 * tables are changed between the access and the exit the same comes of a race.) IA-PC HPET
 * Specification, "Timer N Comparator Value Register". */
void test_apic_device(const struct job *job)
{
    static const uint8_t code[] = {0x8b, 0x07, 0xc3}; /* mov eax, [rdi]; ret */
    const uint64_t flags = PTE_P | PTE_RW | PTE_A, at = fuzz_physical(code);
    const uint64_t pointer = fuzz_physical(directory) | flags;
    uint64_t *pml4 = (uint64_t *)(read_cr3() & BITS(51, 12)), wrong = 0;
    volatile uint64_t *comparator = (volatile uint64_t *)(HPET + HPET_COMPARATOR_0);

    expect(&wrong, call_try(code, APIC_PAGE + APIC_TPR), "a load by code in memory");
    directory[0] = (at & ~(LARGE_PAGE - 1)) | flags | PTE_PS;
    *comparator = pointer;
    expect(&wrong, *comparator == pointer, "there is no HPET");
    pml4[WINDOW_ENTRY] = HPET | flags;
    write_cr3(read_cr3());
    uint64_t linear = WINDOW_ENTRY * BIT(39) + HPET_COMPARATOR_0 / 8 * BIT(30);
    bool done = call_try((const void *)(linear + at % LARGE_PAGE), APIC_PAGE + APIC_TPR);
    expect(&wrong, done == (job->number[0] != 0), "a load by code behind a table in a device");
    pml4[WINDOW_ENTRY] = 0;
    write_cr3(read_cr3());
    tap_result(wrong == 0, job->name, NULL);
}
