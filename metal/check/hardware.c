/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Answers the image's CPUID, RDMSR and register reads from a struct machine. What the machine does
 * not tell is noted. Where there is a most favourable value it is given, so that what is refused
 * nevertheless is refused for certain; else the question ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metal/check/question.h"
#include "mm/mm.h"
#include "mm/mmio.h"
#include "mm/vtd_registers.h"
#include "msr.h"
#include "vmx/root/fault.h"
#include "vmx/vmcs_access.h"
#include "x86.h"

#define EXTENDED_LEAVES 0x80000000u
#define HYPERVISOR_LEAVES 0x40000000u

static const struct machine *machine;
static const struct processor *now;

jmp_buf question_end;
struct unknowns unknowns;

static void note(bool can_refuse, const char *what)
{
    /* What the favourable value lets pass is as if it were known. */
    unknowns.asked += !can_refuse;
    for (size_t i = 0; i < unknowns.count; i++)
        if (strcmp(unknowns.lines[i], what) == 0)
            return;
    if (unknowns.count == UNKNOWNS_MAX)
        return;
    unknowns.can_refuse |= can_refuse;
    unknowns.refuses[unknowns.count] = can_refuse;
    snprintf(unknowns.lines[unknowns.count++], UNKNOWN_LINE, "%s", what);
}

void note_unknown(const char *what) { note(false, what); }

void note_obstacle(const char *what) { note(true, what); }

static void note_number(bool can_refuse, const char *before, uint32_t number, const char *after)
{
    char line[UNKNOWN_LINE];

    snprintf(line, sizeof(line), "%s0x%x%s", before, number, after);
    note(can_refuse, line);
}

/* Ends the question. */
static _Noreturn void stuck(const char *before, uint32_t number, const char *after)
{
    note_number(true, before, number, after);
    longjmp(question_end, 1);
}

/* ---- processors ---- */

void hardware_is(const struct machine *m, const struct processor *p)
{
    machine = m;
    now = p;
}

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
    const uint32_t base = leaf >= EXTENDED_LEAVES     ? EXTENDED_LEAVES
                          : leaf >= HYPERVISOR_LEAVES ? HYPERVISOR_LEAVES
                                                      : 0;
    const struct cpuid_line *c = find_cpuid(now, leaf, subleaf), *last = find_cpuid(now, base, 0);

    /* A subleaf that is not listed is zero, where the leaf is. */
    bool there = last != NULL ? leaf <= last->eax : base != HYPERVISOR_LEAVES;
    if (c == NULL && find_cpuid(now, leaf, 0) == NULL && there)
        stuck("CPUID leaf ", leaf, "");
    struct cpuid_result r = {0};
    if (c != NULL)
        r = (struct cpuid_result){c->eax, c->ebx, c->ecx, c->edx};
    return r;
}

/* SDM Vol. 3, "Local APIC Status and Location" */
#define APIC_BASE_RESET 0xfee00000
static const struct {
    uint32_t first, last;
    uint64_t value; /* the one that takes nothing away */
    bool can_refuse;
    const char *name;
} favourable[] = {
    {IA32_FEATURE_CONTROL, IA32_FEATURE_CONTROL, 0, true,
     "IA32_FEATURE_CONTROL: has firmware locked VMX off?"},
    {IA32_APIC_BASE, IA32_APIC_BASE, APIC_BASE_RESET | APIC_BASE_EN, false, "IA32_APIC_BASE"},
    {IA32_XAPIC_DISABLE_STATUS, IA32_XAPIC_DISABLE_STATUS, 0, false, "IA32_XAPIC_DISABLE_STATUS"},
    {IA32_ARCH_CAPABILITIES, IA32_ARCH_CAPABILITIES, 0, false, "IA32_ARCH_CAPABILITIES"},
    {IA32_TME_ACTIVATE, IA32_TME_ACTIVATE, 0, false, "IA32_TME_ACTIVATE"},
    {IA32_MTRRCAP, IA32_MTRRCAP, 0, false, "the MTRRs"},
    {IA32_MTRR_PHYSBASE0, IA32_PAT - 1, 0, false, "the MTRRs"},
    {IA32_MTRR_DEF_TYPE, IA32_MTRR_DEF_TYPE, MTRR_DEF_TYPE_E | MEMORY_WB, false, "the MTRRs"},
    {IA32_PERF_CAPABILITIES, IA32_PERF_CAPABILITIES, 0, false, "IA32_PERF_CAPABILITIES"},
    {IA32_BIOS_SIGN_ID, IA32_BIOS_SIGN_ID, UINT64_MAX, false, "IA32_BIOS_SIGN_ID"},
    {IA32_VMX_PROCBASED_CTLS3, IA32_VMX_PROCBASED_CTLS3, 0, false, "IA32_VMX_PROCBASED_CTLS3"},
};

/* Those of one name are one unknown. */
static bool favourable_value(uint32_t index, uint64_t *value)
{
    for (unsigned i = 0; i < LENGTH_OF(favourable); i++) {
        if (index < favourable[i].first || index > favourable[i].last)
            continue;
        note(favourable[i].can_refuse, favourable[i].name);
        *value = favourable[i].value;
        return true;
    }
    return false;
}

/* What a running Linux has changed is as firmware left it. */
static uint64_t as_firmware_left(uint32_t index, uint64_t value)
{
    if (index != IA32_APIC_BASE || !(value & APIC_BASE_EXTD))
        return value;
    if (machine->x2apic == OFF)
        return value & ~(uint64_t)APIC_BASE_EXTD;
    if (machine->x2apic == UNKNOWN || machine->remapping == UNKNOWN) {
        unknowns.units = true;
        note(false, "x2APIC mode and interrupt remapping: did firmware turn them on, or Linux?");
    }
    return value;
}

/* All others are only tried, and no line depends on them. */
static bool matters(uint32_t index)
{
    static const uint32_t tried[] = {IA32_MISC_ENABLE, IA32_PEBS_ENABLE, MSR_PKG_CST_CONFIG_CONTROL,
                                     MSR_PMG_IO_CAPTURE_BASE};

    for (unsigned i = 0; i < LENGTH_OF(tried); i++)
        if (tried[i] == index)
            return true;
    return false;
}

bool rdmsr_safe(uint32_t index, uint64_t *value)
{
    const struct msr_line *m = find_msr(now, index);

    if (m == NULL && !favourable_value(index, value)) {
        if (matters(index))
            note_number(false, "MSR ", index, "");
        return false;
    }
    if (m != NULL)
        *value = as_firmware_left(index, m->value);
    return m == NULL || !m->faults;
}

bool wrmsr_safe(uint32_t index, uint64_t value)
{
    (void)value;
    return find_msr(now, index) != NULL && !find_msr(now, index)->faults;
}

uint64_t rdmsr(uint32_t index)
{
    const struct msr_line *m = find_msr(now, index);
    uint64_t value = 0;

    /* On the machine it is a #GP under firmware, before any descriptor table of the image's. */
    if (m != NULL && m->faults)
        stuck("MSR ", index, ", which cannot be read");
    if (m != NULL)
        return as_firmware_left(index, m->value);
    if (!favourable_value(index, &value))
        stuck("MSR ", index, "");
    return value;
}

/* ---- time ---- */

#define PM_TIMER_HZ 3579545ULL /* ACPI specification, "Power Management Timer" */
#define TSC_STEP 100

static uint64_t tsc;

uint64_t rdtsc(void) { return tsc += TSC_STEP; }

/* Takes any port of 32 bits for ACPI's PM timer, which follows the TSC. Each read moves the TSC. */
uint32_t inl(uint16_t port)
{
    (void)port;
    if (machine->tsc_khz == 0) {
        note(false, "the TSC's frequency");
        return 0;
    }
    return (uint32_t)(rdtsc() * PM_TIMER_HZ / (machine->tsc_khz * 1000ULL));
}

/* ---- VT-d units, which do as they are told ---- */

#define UNIT_BYTES 0x10000ULL /* the registers that a command goes to are in the first of them */
static struct unit_state {
    uint32_t status;
    uint64_t root, tail, queue;
} states[UNITS_MAX];
static struct range pool; /* physical memory: a pointer is an address */

void units_reset(struct range memory)
{
    pool = memory;
    memset(states, 0, sizeof(states));
    for (unsigned i = 0; i < UNITS_MAX; i++)
        states[i].status = machine->remapping == ON ? GLOBAL_IRE : 0;
}

static const struct unit_line *unit_at(uint64_t address, struct unit_state **state)
{
    for (size_t i = 0; i < machine->unit_count && i < UNITS_MAX; i++)
        if (address - machine->units[i].address < PAGE_SIZE) {
            *state = &states[i];
            return &machine->units[i];
        }
    return NULL;
}

static uint64_t mmio_read(uint64_t address, unsigned bytes)
{
    struct unit_state *s;
    const struct unit_line *unit = unit_at(address, &s);

    if (unit == NULL && (address < pool.base || address - pool.base >= pool.size)) {
        unknowns.units = true;
        note(false, "the capabilities of the VT-d units: can DMA be contained?");
        return 0;
    }
    if (unit == NULL) /* a table of the code's own */
        return bytes == 4 ? *(const volatile uint32_t *)(uintptr_t)address
                          : *(const volatile uint64_t *)(uintptr_t)address;
    switch (address - unit->address) {
    case VTD_CAP:
        return unit->cap;
    case VTD_ECAP:
        return unit->ecap;
    case VTD_GSTS:
        return s->status;
    case VTD_RTADDR:
        return s->root;
    case VTD_IQH:
        return s->tail;
    case VTD_IQT:
        return s->tail;
    default:
        return 0;
    }
}

/* Of all invalidations the code waits for the last one's word. */
static void invalidate(struct unit_state *s, uint64_t tail)
{
    uint64_t *queue = (uint64_t *)(uintptr_t)(s->queue & ~(PAGE_SIZE - 1));

    for (uint64_t i = s->tail / sizeof(*queue); i < tail / sizeof(*queue); i += 2)
        if ((queue[i] & 0xf) == (INVALIDATE_WAIT & 0xf))
            *(uint32_t *)(uintptr_t)queue[i + 1] = (uint32_t)(queue[i] >> WAIT_STATUS_SHIFT);
    s->tail = tail;
}

uint32_t mmio_read_32(uint64_t address) { return (uint32_t)mmio_read(address, 4); }

uint64_t mmio_read_64(uint64_t address) { return mmio_read(address, 8); }

void mmio_write_64(uint64_t address, uint64_t value)
{
    struct unit_state *s;
    const struct unit_line *unit = unit_at(address, &s);

    if (unit == NULL)
        return;
    switch (address - unit->address) {
    case VTD_GCMD:
        s->status = (uint32_t)(value & ~(uint64_t)GLOBAL_WBF);
        break;
    case VTD_RTADDR:
        s->root = value;
        break;
    case VTD_IQA:
        s->queue = value;
        break;
    case VTD_IQT:
        invalidate(s, value);
        break;
    default:
        break;
    }
}

void mmio_write_32(uint64_t address, uint32_t value) { mmio_write_64(address, value); }

/* ---- what changes nothing: a processor as firmware hands it over, and no VMCS ---- */

uint64_t read_cr0(void) { return CR0_PE | CR0_PG; }
uint64_t read_cr3(void) { return 0; }
uint64_t read_cr4(void) { return CR4_PAE; }
void write_cr0(UNUSED uint64_t value) {}
void write_cr3(UNUSED uint64_t value) {}
void write_cr4(UNUSED uint64_t value) {}
void wrmsr(UNUSED uint32_t index, UNUSED uint64_t value) {}
uint8_t inb(UNUSED uint16_t port) { return 0xff; }
uint16_t inw(UNUSED uint16_t port) { return 0xffff; }
void outb(UNUSED uint16_t port, UNUSED uint8_t value) {}
void outw(UNUSED uint16_t port, UNUSED uint16_t value) {}
void outl(UNUSED uint16_t port, UNUSED uint32_t value) {}
void cli(void) {}
void wbinvd(void) {}
uint64_t vmcs_read_raw(UNUSED uint32_t encoding) { return 0; }
void vmcs_write_raw(UNUSED uint32_t encoding, UNUSED uint64_t value) {}
