/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs one part of the emulator's tests, and counts its checks. See emulator.h.
 */
#include "emulator.h"

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
#define EMULATOR_ROW(name) {#name, emulator_##name},
    EMULATOR_PARTS(EMULATOR_ROW)
#undef EMULATOR_ROW
};

extern const char emulator_stubs[]; /* emulator.asm */
void emulator_event(struct trap_frame *frame);

volatile unsigned pmi_interrupts;
static void (*handlers[VECTORS])(struct trap_frame *frame);
static unsigned passed, failed;
static const char *subject, *subject_more;

void check_about(const char *what, const char *more)
{
    subject = what;
    subject_more = more;
}

void check_equal(const char *what, uint64_t found, uint64_t wanted)
{
    if (found == wanted) {
        passed++;
        return;
    }
    failed++;
    tap_note("%s%s%s: found 0x%lx, wanted 0x%lx", subject, subject_more, what, found, wanted);
}

void check_that(const char *what, bool holds) { check_equal(what, holds, true); }

void emulator_event(struct trap_frame *frame) { handlers[frame->vector](frame); }

uint64_t handler_of(unsigned vector) { return (uintptr_t)emulator_stubs + vector * STUB_BYTES; }

void handle(unsigned vector, void (*handler)(struct trap_frame *frame))
{
    handlers[vector] = handler;
    cpu_gate(vector, (const void *)handler_of(vector));
}

bool wrmsr_faults(uint32_t index, uint64_t value) { return !wrmsr_try(index, value); }

bool rdmsr_faults(uint32_t index)
{
    uint64_t value;

    return !rdmsr_try(index, &value);
}

bool rdpmc_faults(uint32_t index)
{
    static const uint8_t code[] = {0x89, 0xf9, 0x0f, 0x33, 0xc3}; /* mov ecx, edi; rdpmc; ret */

    return !call_try(code, index);
}

void open_interrupts(void) { __asm__ volatile("sti; nop; nop; cli" : : : "memory"); }

static void on_pmi(struct trap_frame *frame UNUSED)
{
    pmi_interrupts++;
    apic_eoi();
}

uint64_t *page_for_user(uint64_t linear, bool user)
{
    uint64_t *table = (uint64_t *)read_cr3(), *entry = NULL;

    for (int shift = PAGE_SHIFT + 3 * TABLE_INDEX_BITS; shift >= PAGE_SHIFT;
         shift -= TABLE_INDEX_BITS) {
        entry = &table[linear >> shift & (TABLE_ENTRIES - 1)];
        if (shift == PAGE_SHIFT || *entry & PTE_PS)
            break;
        *entry |= PTE_US;
        table = (uint64_t *)(*entry & PTE_ADDRESS);
    }
    *entry = (*entry & ~PTE_US) | (user ? PTE_US : 0);
    invlpg((const void *)linear);
    return entry;
}

void test_emulator(const struct job *job)
{
    for (unsigned i = 0; i < LENGTH_OF(parts); i++) {
        if (!text_equal(job->word, parts[i].name))
            continue;
        passed = failed = 0;
        check_about("", "");
        handle(PMI_VECTOR, on_pmi);
        apic_write(APIC_LVT_TIMER, LVT_MASKED);
        apic_software_enable(true);
        parts[i].run();
        cpu_setup(); /* restores the handlers */
        tap_note("%s: %u checks", job->word, passed);
        tap_result(passed != 0 && failed == 0, job->name, NULL);
        return;
    }
    tap_result(false, job->name, "wanted emulator:PART with a known part");
}
