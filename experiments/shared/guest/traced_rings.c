/* SPDX-License-Identifier: BSD-2-Clause
 *
 * traced_rings.c: maps rings by /dev/mem, and writes what is in them as trace_file.h has it.
 */
#define _GNU_SOURCE
#include "traced_rings.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORDS_AT_ONCE 4096
#define CHUNKS_MAX 4096 /* of one look: a writer that is faster has to be left at some time */

struct traced traced[PROCESSORS_MAX];
int traced_count;

int say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vwarnx(format, arguments);
    va_end(arguments);
    return 1;
}

int traced_add(int processor, uint64_t level, uint64_t ring, uint64_t bytes)
{
    struct traced *t = &traced[traced_count];

    if (traced_count == PROCESSORS_MAX)
        return say("more than %d processors", PROCESSORS_MAX);
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
        return say("processor %d: found no ring of version %d; use the %s of this PMUvisor",
                   processor, TRACE_RING_VERSION, program_invocation_short_name);
    t->processor = processor;
    t->level = level;
    traced_count++;
    return 0;
}

int traced_drain(FILE *out, const char *path, unsigned *most)
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
                return say("%s: %s", path, strerror(errno));
        } while (chunk.count != 0 && ++chunks < CHUNKS_MAX);
        uint64_t filled = (reader->next - before) * 100 / reader->ring->capacity;
        if (filled > share)
            share = filled;
    }
    if (most != NULL)
        *most = (unsigned)share;
    return 0;
}

uint64_t traced_lost(void)
{
    uint64_t lost = 0;

    for (int i = 0; i < traced_count; i++)
        lost += traced[i].reader.lost;
    return lost;
}
