/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace= and supervisor shadow stacks. An NMI's delivery makes the token of its shadow stack
 * busy, and pushes what it has to below it: on another page, which is closed, or whose entry a
 * walk has to mark in a closed table. Then the delivery comes twice, and finds the token as it
 * was. SDM Vol. 1, "Supervisor Shadow Stack Token"; Vol. 3, "Shadow-Stack Updates" of "Other
 * Changes in VMX Non-Root Operation".
 */
#include "memory.h"

#include <string.h>

#include "console/log.h"
#include "hypercall.h"
#include "vmx.h"
#include "x86.h"

#define PAGE MEMORY_PAGE
#define WORD 8
#define PUSHED 3               /* words */
#define TABLE_PAGE 4           /* of the area: as test_memory_event.c has it */
#define SHADOW (PTE_P | PTE_D) /* not writable */

static bool start(uint64_t mode, const void *from, uint64_t bytes)
{
    return mode == MEMTRACE_OFF || memory_trace_physical(mode, from, bytes) == MEMTRACE_OFF;
}

static bool told(bool good, uint64_t mode, const char *what, unsigned word)
{
    if (mode != MEMTRACE_OFF)
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    if (!good)
        tap_note("mode %lu, %s, the token in word %u of its page", mode, what, word);
    return good;
}

/* The token lies in the page after the closed one, so that its first push is there, or the next
 * one. */
static bool pushes(uint64_t mode, unsigned word)
{
    uint64_t *token = (uint64_t *)(memory_area + PAGE) + word;

    *token = (uint64_t)token;
    for (unsigned page = 0; page < 2; page++)
        cet_protect(memory_area + page * PAGE, true);
    bool good = start(mode, memory_area, PAGE) && cet_nmis_on(token);
    for (unsigned page = 0; page < 2; page++)
        cet_protect(memory_area + page * PAGE, false);
    return told(good, mode, "a push", word);
}

/* A walk for the first page has set A in the closed table. (MEMTRACE_READS has no record of it.) */
static bool walked(uint64_t first)
{
    for (uint64_t n = first; n < memory_records(); n++)
        if (memory_record(n).flags & TRACE_WALK && memory_record(n).gla - WINDOW_AT < PAGE)
            return true;
    tap_note("no walk of %lu records", memory_records() - first);
    return false;
}

/* The same by the window, where the table is closed and the entry of the first page has no A yet.
 * */
static bool walks(uint64_t mode, unsigned word)
{
    uint64_t *token = (uint64_t *)(memory_area + (WINDOW_PAGE + 1) * PAGE) + word;
    uint64_t at = WINDOW_AT + PAGE + word * WORD;

    *token = at;
    memory_window(SHADOW, SHADOW | PTE_A);
    uint64_t first = mode != MEMTRACE_OFF ? memory_records() : 0;
    bool good = start(mode, memory_area + TABLE_PAGE * PAGE, PAGE) &&
                cet_nmis_on((const uint64_t *)at);
    memory_window_close();
    if (word < PUSHED && (mode == MEMTRACE_WRITES || mode == MEMTRACE_ALL))
        good = good && walked(first);
    return told(good, mode, "a walk", word);
}

/* The work's own shadow stack is closed: a push right below its token, which is busy, is one
 * without a switch. */
static bool stays(uint64_t mode)
{
    uint64_t *token = (uint64_t *)(memory_area + PAGE) - 1;

    *token = (uint64_t)token;
    cet_protect(memory_area, true);
    bool good = start(mode, cet_stack, PAGE) && cet_nmis_on(token);
    cet_protect(memory_area, false);
    return told(good, mode, "a push without a switch", PAGE / WORD - 1);
}

/* `smp-memory-cet:MODE`, of MEMTRACE_*; MEMTRACE_OFF natively, too. */
void test_smp_memory_cet(const struct job *job)
{
    uint64_t mode = job->number[0];

    if (!cet_offered(job) || (mode != MEMTRACE_OFF && !memory_offered(job)))
        return;
    memset(memory_area, 0, sizeof(memory_area));
    bool good = stays(mode);
    for (unsigned word = 0; word <= PUSHED; word++) {
        good &= pushes(mode, word);
        good &= walks(mode, word);
    }
    if (mode != MEMTRACE_OFF)
        log_printf("memory-cet: violations=%ld\n",
                   hypercall(HYPERCALL_STATISTICS, EXIT_REASON_EPT_VIOLATION));
    tap_result(good, job->name, NULL);
}
