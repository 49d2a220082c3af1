/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads a machine from text: one fact a line, so that a listing from elsewhere can be put into this
 * form by hand. metal/check/README.md has the form. Believes no line.
 */
#include "metal/check/machine.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

#define LINE_MAX_BYTES 4096
#define TABLE_MAX (64u << 20)
#define SHOWN 60

static const char *const known_words[] = {"unknown", "off", "on"};

struct reader {
    struct machine *m;
    const char *name;
    size_t line;
    struct processor *cpu; /* that the lines are of */
    uint32_t table_left;   /* bytes of the last table that are still to come */
    bool titled, ended;
    char *why;
};

static bool bad(const struct reader *r, const char *found, const char *wanted)
{
    snprintf(r->why, WHY_MAX,
             "%s:%zu: found '%.*s', wanted %s; make the dump again: "
             "pmuvisor-check --dump",
             r->name, r->line, SHOWN, found, wanted);
    return false;
}

static bool read_known(struct reader *r, const char *rest, void *field)
{
    for (unsigned i = 0; i < LENGTH_OF(known_words); i++)
        if (strcmp(rest, known_words[i]) == 0) {
            *(enum known *)field = (enum known)i;
            return true;
        }
    return bad(r, rest, "on, off or unknown");
}

static bool decimal(const char *text, unsigned long most, uint32_t *out)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    *out = (uint32_t)number;
    return *text >= '0' && *text <= '9' && *end == '\0' && number <= most;
}

static bool read_offline(struct reader *r, const char *rest, void *field)
{
    return decimal(rest, UINT16_MAX, field) || bad(r, rest, "a number of processors");
}

static bool read_tsc(struct reader *r, const char *rest, void *field)
{
    return decimal(rest, UINT32_MAX, field) || bad(r, rest, "the TSC's rate in kHz");
}

static bool read_text(UNUSED struct reader *r, const char *rest, void *field)
{
    append_text(field, rest, strlen(rest));
    append_text(field, "\n", 1);
    return true;
}

static bool read_memory(struct reader *r, const char *rest, UNUSED void *field)
{
    struct memory_line line = {0};

    if (sscanf(rest, "%16" SCNx64 " %16" SCNx64 " %47c", &line.first, &line.last, line.kind) != 3 ||
        line.first > line.last)
        return bad(r, rest, "memory FIRST LAST KIND");
    ADD(r->m->memory, r->m->memory_count) = line;
    return true;
}

static bool read_unit(struct reader *r, const char *rest, UNUSED void *field)
{
    struct unit_line line;
    int end = 0;

    if (sscanf(rest, "%16" SCNx64 " %16" SCNx64 " %16" SCNx64 "%n", &line.address, &line.cap,
               &line.ecap, &end) != 3 ||
        rest[end] != '\0')
        return bad(r, rest, "vtd ADDRESS CAP ECAP");
    ADD(r->m->units, r->m->unit_count) = line;
    return true;
}

/* What an older version wrote, and nothing asks for. */
static bool read_nothing(UNUSED struct reader *r, UNUSED const char *rest, UNUSED void *field)
{
    return true;
}

static bool read_table(struct reader *r, const char *rest, UNUSED void *field)
{
    uint32_t length;

    if (strlen(rest) < SIGNATURE_LENGTH + 2 || rest[SIGNATURE_LENGTH] != ' ' ||
        !decimal(rest + SIGNATURE_LENGTH + 1, TABLE_MAX, &length) || length == 0)
        return bad(r, rest, "table SIGNATURE BYTES");
    struct table *t = &ADD(r->m->tables, r->m->table_count);
    memcpy(t->signature, rest, SIGNATURE_LENGTH);
    t->length = r->table_left = length;
    t->bytes = calloc(1, length);
    return t->bytes != NULL || bad(r, rest, "a table that there is memory for");
}

static bool read_bytes(struct reader *r, const char *rest, UNUSED void *field)
{
    struct table *t = &r->m->tables[r->m->table_count - 1];

    if (r->table_left == 0)
        return bad(r, rest, "no more bytes of this table");
    for (; *rest != '\0'; rest += 2)
        if (r->table_left == 0 || !isxdigit(rest[0]) || !isxdigit(rest[1]) ||
            sscanf(rest, "%2hhx", &t->bytes[t->length - r->table_left--]) != 1)
            return bad(r, rest, "the table's bytes, of two digits each, no more than it has");
    return true;
}

static bool read_complete(struct reader *r, const char *rest, UNUSED void *field)
{
    if (strcmp(rest, "complete") != 0)
        return bad(r, rest, "complete");
    r->m->tables_complete = true;
    return true;
}

static bool read_cpu(struct reader *r, const char *rest, UNUSED void *field)
{
    uint32_t number;

    if (!decimal(rest, UINT16_MAX, &number))
        return bad(r, rest, "a processor's number");
    for (size_t i = 0; i < r->m->processor_count; i++)
        if (r->m->processors[i].number == number)
            return bad(r, rest, "each processor once");
    r->cpu = &ADD(r->m->processors, r->m->processor_count);
    r->cpu->number = number;
    /* Like the first one, but for what follows. */
    const struct processor *first = r->m->processors;
    for (size_t i = 0; r->cpu != first && i < first->cpuid_count; i++)
        ADD(r->cpu->cpuid, r->cpu->cpuid_count) = first->cpuid[i];
    for (size_t i = 0; r->cpu != first && i < first->msr_count; i++)
        ADD(r->cpu->msr, r->cpu->msr_count) = first->msr[i];
    return true;
}

static bool read_cpuid(struct reader *r, const char *rest, UNUSED void *field)
{
    struct cpuid_line n;
    int end = 0;

    if (r->cpu == NULL)
        return bad(r, rest, "a line 'cpu N' before");
    if (sscanf(rest, "%8x %8x %8x %8x %8x %8x%n", &n.leaf, &n.subleaf, &n.eax, &n.ebx, &n.ecx,
               &n.edx, &end) != 6 ||
        rest[end] != '\0')
        return bad(r, rest, "cpuid LEAF SUBLEAF EAX EBX ECX EDX");
    struct cpuid_line *line = (struct cpuid_line *)find_cpuid(r->cpu, n.leaf, n.subleaf);
    if (line == NULL)
        line = &ADD(r->cpu->cpuid, r->cpu->cpuid_count);
    *line = n;
    return true;
}

static bool read_msr(struct reader *r, const char *rest, UNUSED void *field)
{
    struct msr_line n = {0};
    int at = 0, end = 0;

    if (r->cpu == NULL)
        return bad(r, rest, "a line 'cpu N' before");
    bool good = sscanf(rest, "%8x %n", &n.index, &at) == 1 && rest[at - 1] == ' ';
    n.faults = good && strcmp(rest + at, "fault") == 0;
    if (!good || (!n.faults && (sscanf(rest + at, "%16" SCNx64 "%n", &n.value, &end) != 1 ||
                                rest[at + end] != '\0')))
        return bad(r, rest, "msr INDEX VALUE, or fault in the value's place");
    struct msr_line *line = (struct msr_line *)find_msr(r->cpu, n.index);
    if (line == NULL)
        line = &ADD(r->cpu->msr, r->cpu->msr_count);
    *line = n;
    return true;
}

static bool read_end(struct reader *r, UNUSED const char *rest, UNUSED void *field)
{
    return r->ended = true;
}

/* FIELD: what the function fills. The others look for their own place in the machine. */
#define FIELD(name) offsetof(struct machine, name)
static const struct {
    const char *word;
    bool (*read)(struct reader *r, const char *rest, void *field);
    size_t field;
} words[] = {
    {"source", read_text, FIELD(source)},
    {"fact", read_text, FIELD(facts)},
    {"config", read_text, FIELD(config)},
    {"secure_boot", read_known, FIELD(secure_boot)},
    {"image_signed", read_known, FIELD(image_signed)},
    {"x2apic", read_known, FIELD(x2apic)},
    {"remapping", read_known, FIELD(remapping)},
    {"offline", read_offline, FIELD(offline)},
    {"tsc_khz", read_tsc, FIELD(tsc_khz)},
    {"memory", read_memory, 0},
    {"vtd", read_unit, 0},
    {"framebuffer", read_nothing, 0},
    {"table", read_table, 0},
    {"+", read_bytes, 0},
    {"tables", read_complete, 0},
    {"cpu", read_cpu, 0},
    {"cpuid", read_cpuid, 0},
    {"msr", read_msr, 0},
    {DUMP_END, read_end, 0},
};

static bool read_line(struct reader *r, const char *line)
{
    size_t length = strcspn(line, " ");
    const char *rest = line + length + strspn(line + length, " ");

    if (r->ended)
        return bad(r, line, "nothing after the line 'end'");
    if (!r->titled)
        return (r->titled = strcmp(line, DUMP_TITLE) == 0) || bad(r, line, "'" DUMP_TITLE "'");
    if (r->table_left != 0 && strncmp(line, "+ ", 2) != 0)
        return bad(r, line, "more bytes of the table");
    for (unsigned i = 0; i < LENGTH_OF(words); i++)
        if (strlen(words[i].word) == length && strncmp(line, words[i].word, length) == 0)
            return words[i].read(r, rest, (char *)r->m + words[i].field);
    return bad(r, line, "a line that metal/check/README.md names");
}

bool dump_read(struct machine *m, const char *text, size_t length, const char *name,
               char why[WHY_MAX])
{
    struct reader r = {.m = m, .name = name, .why = why};
    char line[LINE_MAX_BYTES];

    memset(m, 0, sizeof(*m));
    for (size_t at = 0; at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t bytes = newline == NULL ? length - at : (size_t)(newline - text) - at;

        r.line++;
        if (bytes >= sizeof(line))
            return bad(&r, "a long line", "lines of text");
        memcpy(line, text + at, bytes);
        while (bytes > 0 && (line[bytes - 1] == '\r' || line[bytes - 1] == ' '))
            bytes--;
        line[bytes] = '\0';
        at = newline == NULL ? length : (size_t)(newline - text) + 1;
        for (size_t i = 0; i < bytes; i++)
            if ((unsigned char)line[i] < ' ' && line[i] != '\t')
                return bad(&r, "a control character", "lines of text");
        if (bytes > 0 && line[0] != '#' && !read_line(&r, line))
            return false;
    }
    if (!r.ended)
        return bad(&r, "the end of the file", "a line '" DUMP_END "': the dump is cut");
    return m->processor_count > 0 || bad(&r, DUMP_END, "at least one processor");
}
