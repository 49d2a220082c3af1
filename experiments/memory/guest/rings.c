/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rings.c: traces memory of the processors of traced_rings.h, and writes what is in their rings as
 * trace_file.h has it.
 */
#include "rings.h"
#include "trace_ring.h"

#include <cpuid.h>
#include <errno.h>
#include <string.h>

#include "hypercall.h"

#define CPUID_1_ECX_OSXSAVE (1u << 27)

static FILE *out;
static uint32_t out_mode;
static const char *out_path;

int rings_add(int processor)
{
    const struct memory_request ask = {.mode = TRACE_ASK};
    uint64_t ring, bytes;

    if (!run_on(processor))
        return say("processor %d: %s", processor, strerror(errno));
    int64_t mode = hypercall_memory(&ask, &ring, &bytes);
    if (mode < 0)
        return say("processor %d: the hypercall gave %ld: %s", processor, (long)mode,
                   memory_error(mode));
    if (mode != MEMTRACE_OFF)
        return say("processor %d: its memory is traced already; end that first", processor);
    return traced_add(processor, MEMTRACE_OFF, ring, bytes);
}

int rings_turn(const struct memory_request *request)
{
    int failed = 0;

    for (int i = 0; i < traced_count; i++) {
        uint64_t ring, bytes;

        if (!run_on(traced[i].processor)) {
            failed = say("processor %d: %s", traced[i].processor, strerror(errno));
            continue;
        }
        int64_t was = hypercall_memory(request, &ring, &bytes);
        if (was < 0)
            failed = say("processor %d: the hypercall gave %ld: %s", traced[i].processor, (long)was,
                         memory_error(was));
    }
    return failed;
}

/* ---- the file ---- */

/* What the guest's system has enabled; 0: it has no XSAVE. */
static uint64_t xcr0(void)
{
    unsigned eax, ebx, ecx, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & CPUID_1_ECX_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (uint64_t)edx << 32 | eax;
}

static bool write_head(void)
{
    const volatile struct trace_ring *ring = traced[0].reader.ring;
    struct trace_file head = {.magic = TRACE_FILE_MAGIC,
                              .version = TRACE_FILE_VERSION,
                              .record_bytes = sizeof(struct trace_record),
                              .level = TRACE_MEMORY,
                              .tsc_khz = ring->tsc_khz,
                              .processors = (uint32_t)traced_count,
                              .memory = out_mode,
                              .counter = ring->counter,
                              .xcr0 = xcr0()};

    for (int i = 0; i < traced_count; i++)
        if (traced[i].reader.ring->unread > head.unread)
            head.unread = traced[i].reader.ring->unread;
    return fwrite(&head, sizeof(head), 1, out) == 1;
}

int rings_file(const char *path, uint32_t mode)
{
    out_path = path;
    out_mode = mode;
    out = fopen(path, "we");
    if (out == NULL || !write_head())
        return say("%s: %s", path, strerror(errno));
    return 0;
}

int rings_drain(unsigned *most) { return traced_drain(out, out_path, most); }

int rings_finish(void)
{
    uint64_t written = 0, lost = traced_lost();

    for (int i = 0; i < traced_count; i++)
        written += traced[i].reader.next - traced[i].reader.begun;
    if (fseek(out, 0, SEEK_SET) != 0 || !write_head() || fclose(out) != 0)
        return say("%s: %s", out_path, strerror(errno));
    printf("memtrace: processors=%d accesses=%lu lost=%lu\n", traced_count,
           (unsigned long)((written - lost) / TRACE_MEMORY_FRAMES),
           (unsigned long)((lost + TRACE_MEMORY_FRAMES - 1) / TRACE_MEMORY_FRAMES));
    if (lost != 0)
        say("records were overwritten before they were read; start PMUvisor with a larger "
            "trace_ring=, or trace a smaller range");
    return 0;
}
