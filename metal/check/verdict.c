/* SPDX-License-Identifier: BSD-2-Clause
 *
 * From what the image says on a machine to the verdict. A line that was made of something that
 * nobody told is dropped, and what was not told is named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/log.h"
#include "metal/check/question.h"

/* Lines that take nothing away. */
static const char *const informs[] = {
    "VMX controls ",          "EPT pages:",
    "pmuvisor: EPT maps ",    "pmuvisor: DMA contained ",
    "pmuvisor: mitigations:", "pmuvisor: starting the guest",
    "pmuvisor: tick every ",  "pmuvisor: TSC:",
    "CPUID has bits ",
};

static struct verdict *verdict;
static char piece[VERDICT_LINE];
static unsigned asked;
static bool offline; /* some processors, of which nothing is known */

static bool begins(const char *line, const char *words)
{
    return strncmp(line, words, strlen(words)) == 0;
}

static bool lacks(const char *line)
{
    unsigned under, all;

    if (sscanf(line, "pmuvisor: %u of %u processors are under VMX", &under, &all) == 2)
        return under != all;
    for (unsigned i = 0; i < sizeof(informs) / sizeof(informs[0]); i++)
        if (begins(line, informs[i]))
            return false;
    return true;
}

/* Whether something that is not known may have made the line. */
static bool tainted(const char *line)
{
    if (begins(line, "pmuvisor: DMA "))
        return unknowns.units;
    if (strstr(line, " did not start") != NULL || strstr(line, "processors are under VMX") != NULL)
        return offline;
    if (begins(line, "pmuvisor: processor ")) /* by VMX's capabilities, which are known here */
        return false;
    return unknowns.asked != asked;
}

static void whole_line(void)
{
    if (!tainted(piece) && verdict->count < VERDICT_LINES) {
        snprintf(verdict->lines[verdict->count].text, VERDICT_LINE, "%s", piece);
        verdict->lines[verdict->count++].lacks = lacks(piece);
    }
    asked = unknowns.asked;
    piece[0] = '\0';
}

/* A sink of the image's log, which comes in pieces. */
static void collect(const char *text, size_t length)
{
    for (size_t i = 0, end = strlen(piece); i < length; i++) {
        if (text[i] == '\n') {
            whole_line();
            end = 0;
        } else if (end + 1 < sizeof(piece)) {
            piece[end++] = text[i];
            piece[end] = '\0';
        }
    }
}

static void note_missing_tables(const struct machine *m)
{
    static const struct {
        const char *signature, *what;
    } needed[] = {{"APIC", "the ACPI table MADT: which processors are there?"},
                  {"DMAR", "the ACPI table DMAR: can DMA be contained?"},
                  {"FACP", "the ACPI table FADT: can the guest power off?"},
                  {"DSDT", "the ACPI table DSDT: can the guest power off?"}};

    for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!m->tables_complete && find_table(m, needed[i].signature) == NULL) {
            note_unknown(needed[i].what);
            if (strcmp(needed[i].signature, "DMAR") == 0)
                unknowns.units = true;
        }
}

void judge(const struct machine *m, const char *config, const char *load_options, struct verdict *v)
{
    struct start_result result;

    memset(v, 0, sizeof(*v));
    v->lines = calloc(VERDICT_LINES, sizeof(*v->lines));
    if (v->lines == NULL)
        out_of_memory();
    verdict = v;
    offline = m->offline > 0;
    memset(&unknowns, 0, sizeof(unknowns));
    note_missing_tables(m);
    if (offline)
        note_unknown("processors that are not online in Linux: can they be used?");
    if (m->memory_count == 0)
        note_unknown("the memory map");
    if (m->secure_boot == UNKNOWN)
        note_unknown("Secure Boot: firmware refuses the image where it is on");
    if (m->secure_boot == ON && m->image_signed == ON)
        note_obstacle("Secure Boot is on: does this machine know the key of the installed image?");
    asked = unknowns.asked;
    piece[0] = '\0';
    log_set_sink(LOG_SCREEN, collect);
    start_image(m, config, load_options, &result);
    log_set_sink(LOG_SCREEN, NULL);

    v->unknowns = unknowns;
    v->how = result.refused && result.late ? "PMUvisor stops after it has left firmware: "
                                           : "PMUvisor refuses to start: ";
    if (result.refused)
        strcpy(v->refusal, result.refusal);
    else if (m->secure_boot == ON && m->image_signed != ON)
        strcpy(v->refusal, "Secure Boot is on, and firmware starts no image without a signature: "
                           "turn it off in the firmware setup, or sign the image (docs/metal.md)");
    bool lacking = false;
    for (size_t i = 0; i < v->count; i++)
        lacking |= v->lines[i].lacks;
    v->kind = v->refusal[0] != '\0' ? REFUSES
              : unknowns.can_refuse ? NOT_KNOWN
              : lacking             ? BOOTS_WITHOUT
                                    : BOOTS;
}
