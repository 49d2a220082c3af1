/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads a machine from text: one fact a line, so that a listing from elsewhere can be put into this
 * form by hand. metal/check/README.md has the form. Believes no line.
 */
#include "metal/check/machine.h"

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

/* Takes `count` hexadecimal numbers of at most `digits` digits; *rest gets what follows. */
static bool numbers(const char *text, unsigned count, unsigned digits, uint64_t *out,
                    const char **rest)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned used = 0;

        text += strspn(text, " ");
        for (out[i] = 0; strchr("0123456789abcdefABCDEF", *text) != NULL && *text != '\0'; text++) {
            out[i] = out[i] << 4 | (uint64_t)(*text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10);
            used++;
        }
        if (used == 0 || used > digits || (*text != ' ' && *text != '\0'))
            return false;
    }
    *rest = text + strspn(text, " ");
    return true;
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
    uint64_t range[2];
    const char *kind;

    if (!numbers(rest, 2, 16, range, &kind) || range[0] > range[1] || *kind == '\0' ||
        strlen(kind) >= KIND_MAX)
        return bad(r, rest, "memory FIRST LAST KIND");
    struct memory_line *line = &ADD(r->m->memory, r->m->memory_count);
    *line = (struct memory_line){.first = range[0], .last = range[1]};
    strcpy(line->kind, kind);
    return true;
}

static bool read_unit(struct reader *r, const char *rest, UNUSED void *field)
{
    uint64_t n[3];
    const char *end;

    if (!numbers(rest, 3, 16, n, &end) || *end != '\0')
        return bad(r, rest, "vtd ADDRESS CAP ECAP");
    ADD(r->m->units, r->m->unit_count) = (struct unit_line){n[0], n[1], n[2]};
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
    for (; *rest != '\0'; rest += 2) {
        const char *end;
        uint64_t byte;
        char two[3] = {rest[0], rest[1], '\0'};

        if (r->table_left == 0 || rest[1] == '\0' || !numbers(two, 1, 2, &byte, &end) ||
            two[0] == ' ' || two[1] == ' ')
            return bad(r, rest, "the table's bytes, of two digits each, no more than it has");
        t->bytes[t->length - r->table_left--] = (uint8_t)byte;
    }
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
    uint64_t n[6];
    const char *end;

    if (r->cpu == NULL)
        return bad(r, rest, "a line 'cpu N' before");
    if (!numbers(rest, 6, 8, n, &end) || *end != '\0')
        return bad(r, rest, "cpuid LEAF SUBLEAF EAX EBX ECX EDX");
    struct cpuid_line *line = (struct cpuid_line *)find_cpuid(r->cpu, (uint32_t)n[0],
                                                              (uint32_t)n[1]);
    if (line == NULL)
        line = &ADD(r->cpu->cpuid, r->cpu->cpuid_count);
    *line = (struct cpuid_line){(uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2],
                                (uint32_t)n[3], (uint32_t)n[4], (uint32_t)n[5]};
    return true;
}

static bool read_msr(struct reader *r, const char *rest, UNUSED void *field)
{
    uint64_t index, value = 0;
    const char *second, *end = "";

    if (r->cpu == NULL)
        return bad(r, rest, "a line 'cpu N' before");
    bool good = numbers(rest, 1, 8, &index, &second);
    bool faults = good && strcmp(second, "fault") == 0;
    if (!good || (!faults && !numbers(second, 1, 16, &value, &end)) || *end != '\0')
        return bad(r, rest, "msr INDEX VALUE, or fault in the value's place");
    struct msr_line *line = (struct msr_line *)find_msr(r->cpu, (uint32_t)index);
    if (line == NULL)
        line = &ADD(r->cpu->msr, r->cpu->msr_count);
    *line = (struct msr_line){(uint32_t)index, faults, value};
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
