/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sweeps as in sweep.c, over the exits that trace=flow adds: one NMI at each root-mode instruction
 * of each, with interrupts on in root mode or not. The NMI comes once, and so does the interrupt.
 * `sweep-flow:KIND:FIRST:POSITIONS`.
 */
#include <string.h>

#include "trace.h"

#include "console/log.h"
#include "fuzz.h"
#include "hypercall.h"
#include "vmx.h"
#include "x86.h"

#define VECTOR 0x71
#define CLEAN_ROUNDS 8
#define LINGER 32 /* iterations: longer than it takes a pending NMI */
#define WAIT 1000
#define TABLE_WORDS 512

static uint64_t other_table[TABLE_WORDS] __attribute__((aligned(4096)));
static uint64_t own_table;

static void send(void)
{
    uint64_t before = trace_ring->written;

    apic_send(apic_id(), ICR_FIXED | ICR_ASSERT | VECTOR);
    /* With IF = 0 the exit that asks for the window, which takes nothing yet. */
    for (unsigned i = 0; i < WAIT && trace_ring->written == before; i++)
        __asm__ volatile("pause");
}

static void interrupt(void)
{
    __asm__ volatile("sti" : : : "memory");
    send();
    __asm__ volatile("nop\n\tcli" : : : "memory");
}

static void window(void)
{
    send();
    __asm__ volatile("sti\n\tnop\n\tcli" : : : "memory");
}

static void halt(void)
{
    send();
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}

static void cr3(void)
{
    write_cr3(read_cr3() == own_table ? fuzz_physical(other_table) : own_table);
}

/* Each makes one exit of its reason. */
static const struct {
    const char *name;
    unsigned reason;
    void (*run)(void);
    unsigned interrupts;
} kinds[] = {
    {"interrupt", EXIT_REASON_EXTERNAL_INTERRUPT, interrupt, 1},
    {"blocked", EXIT_REASON_EXTERNAL_INTERRUPT, window, 1},
    {"window", EXIT_REASON_INTERRUPT_WINDOW, window, 1},
    {"hlt", EXIT_REASON_HLT, halt, 1},
    {"cr3", EXIT_REASON_CR_ACCESS, cr3, 0},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint64_t exits_so_far(unsigned reason)
{
    return (uint64_t)hypercall(HYPERCALL_STATISTICS, reason);
}

void test_sweep_flow(const struct job *job)
{
    uint64_t first = job->number[0], delivered = 0, silent = 0, wrong = 0;
    unsigned k = 0;

    while (k < KINDS && (strlen(job->word) != strlen(kinds[k].name) ||
                         memcmp(job->word, kinds[k].name, strlen(job->word)) != 0))
        k++;
    if (!trace_begin(job))
        return;
    if (k == KINDS || trace_level(TRACE_ASK) != TRACE_FLOW ||
        exits_so_far(kinds[k].reason) + CLEAN_ROUNDS >= first) {
        tap_result(false, job->name, "wanted trace=flow, a kind, and a first exit still to come");
        return;
    }
    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    own_table = read_cr3();
    memcpy(other_table, (const void *)(own_table & BITS(51, 12)), sizeof(other_table));
    for (uint64_t now = exits_so_far(kinds[k].reason); now + 1 < first; now++) {
        bool clean = now + CLEAN_ROUNDS >= first;
        if (clean)
            region_mark(REGION_TRACE_SWEEP + k, true);
        kinds[k].run();
        if (clean)
            region_mark(REGION_TRACE_SWEEP + k, false);
    }
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t nmis = nmi.count, interrupts = stray_interrupts;
        settle();
        kinds[k].run();
        for (unsigned i = 0; i < LINGER; i++)
            __asm__ volatile("pause");
        nmis = nmi.count - nmis;
        interrupts = stray_interrupts - interrupts;
        silent += nmis == 0;
        delivered += nmis == 1;
        if (nmis > 1 || (nmis == 1 && silent != 0) || interrupts != kinds[k].interrupts) {
            if (wrong++ < 8)
                tap_note("position %lu: %lu NMIs and %lu interrupts", position, nmis, interrupts);
        }
    }
    wrong += exits_so_far(kinds[k].reason) != first - 1 + job->number[1];
    if (read_cr3() != own_table)
        write_cr3(own_table);
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, delivered, silent,
               wrong);
    tap_result(wrong == 0 && delivered != 0 && silent != 0, job->name, NULL);
}
