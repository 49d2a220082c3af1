/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rings.c: maps the rings by /dev/mem, which costs no exit, and writes what is in them as
 * trace_file.h has it.
 */
#define _GNU_SOURCE
#include "rings.h"
#include "trace_ring.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hypercall.h"
#include "ring_reader.h"

#define PROCESSORS_MAX 512
#define RECORDS_AT_ONCE 4096
#define CHUNKS_MAX 4096 /* of one look: a writer that is faster has to be left at some time */
#define CPUID_1_ECX_OSXSAVE (1u << 27)

static struct traced {
    int processor;
    struct ring_reader reader;
} traced[PROCESSORS_MAX];
static int traced_count;
static FILE *out;
static uint32_t out_mode;
static const char *out_path;

int say(const char *format, ...)
{
    va_list arguments;

    fputs("memtrace: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return 1;
}

bool go_to(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

int rings_add(int processor)
{
    const struct memory_request ask = {.mode = TRACE_ASK};
    struct traced *t = &traced[traced_count];
    uint64_t ring, bytes;

    if (traced_count == PROCESSORS_MAX)
        return say("more than %d processors", PROCESSORS_MAX);
    if (!go_to(processor))
        return say("processor %d: %s", processor, strerror(errno));
    int64_t mode = hypercall_memory(&ask, &ring, &bytes);
    if (mode < 0)
        return say("processor %d: the hypercall gave %ld: %s", processor, (long)mode,
                   memory_error(mode));
    if (mode != MEMTRACE_OFF)
        return say("processor %d: its memory is traced already; end that first", processor);
    int memory = open("/dev/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0)
        return say("/dev/mem: %s; wanted to read the rings there: run it as root", strerror(errno));
    const void *there = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memory, (off_t)ring);
    int error = errno;
    close(memory);
    if (there == MAP_FAILED)
        return say(
            "processor %d: /dev/mem does not show its ring: %s; it is reserved memory: is the "
            "kernel locked down?",
            processor, strerror(error));
    if (!ring_reader_open(&t->reader, there, bytes))
        return say("processor %d: found no ring of version %d; use the memtrace of this PMUvisor",
                   processor, TRACE_RING_VERSION);
    t->processor = processor;
    traced_count++;
    return 0;
}

int rings_turn(const struct memory_request *request)
{
    int failed = 0;

    for (int i = 0; i < traced_count; i++) {
        uint64_t ring, bytes;

        if (!go_to(traced[i].processor)) {
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

int rings_drain(unsigned *most)
{
    static struct trace_record records[RECORDS_AT_ONCE];
    uint64_t share = 0;

    for (int i = 0; i < traced_count; i++) {
        struct ring_reader *reader = &traced[i].reader;
        uint64_t before = reader->next;
        struct trace_chunk chunk;
        unsigned chunks = 0;

        do {
            chunk = ring_reader_take(reader, records, RECORDS_AT_ONCE);
            if ((chunk.count != 0 || chunk.lost != 0) && !trace_file_chunk(out, &chunk, records))
                return say("%s: %s", out_path, strerror(errno));
        } while (chunk.count != 0 && ++chunks < CHUNKS_MAX);
        uint64_t filled = (reader->next - before) * 100 / reader->ring->capacity;
        if (filled > share)
            share = filled;
    }
    if (most != NULL)
        *most = (unsigned)share;
    return 0;
}

int rings_finish(void)
{
    uint64_t written = 0, lost = 0;

    for (int i = 0; i < traced_count; i++) {
        written += traced[i].reader.next - traced[i].reader.begun;
        lost += traced[i].reader.lost;
    }
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
