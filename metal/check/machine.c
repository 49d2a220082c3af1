/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Looks things up in a struct machine.
 */
#include "metal/check/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msr.h"

#define APIC_ID_SHIFT 24 /* in EBX of leaf 1 */

void out_of_memory(void)
{
    fprintf(stderr, "pmuvisor-check: out of memory\n");
    exit(STATUS_NOT_ASKED);
}

static void *grown(void *old, size_t size)
{
    void *new = realloc(old, size);

    if (new == NULL)
        out_of_memory();
    return new;
}

void *one_more(void *array, size_t *count, size_t size)
{
    void **place = array;

    if ((*count & (*count - 1)) == 0) /* full: 0, 1, 2, 4, 8 ... */
        *place = grown(*place, (*count == 0 ? 1 : 2 * *count) * size);
    return memset((char *)*place + (*count)++ * size, 0, size);
}

void append_text(char **text, const char *more, size_t length)
{
    size_t before = *text == NULL ? 0 : strlen(*text);

    *text = grown(*text, before + length + 1);
    memcpy(*text + before, more, length);
    (*text)[before + length] = '\0';
}

const struct cpuid_line *find_cpuid(const struct processor *p, uint32_t leaf, uint32_t subleaf)
{
    for (size_t i = 0; i < p->cpuid_count; i++)
        if (p->cpuid[i].leaf == leaf && p->cpuid[i].subleaf == subleaf)
            return &p->cpuid[i];
    return NULL;
}

const struct msr_line *find_msr(const struct processor *p, uint32_t index)
{
    for (size_t i = 0; i < p->msr_count; i++)
        if (p->msr[i].index == index)
            return &p->msr[i];
    return NULL;
}

const struct table *find_table(const struct machine *m, const char *signature)
{
    for (size_t i = 0; i < m->table_count; i++)
        if (strcmp(m->tables[i].signature, signature) == 0)
            return &m->tables[i];
    return NULL;
}

bool find_apic_id(const struct processor *p, uint32_t *id)
{
    const struct cpuid_line *topology = find_cpuid(p, LEAF_TOPOLOGY, 0);
    const struct cpuid_line *basic = find_cpuid(p, 1, 0);

    if (topology != NULL && topology->ebx != 0)
        *id = topology->edx;
    else if (basic != NULL)
        *id = basic->ebx >> APIC_ID_SHIFT;
    else
        return false;
    return true;
}

const struct processor *boot_processor(const struct machine *m)
{
    for (size_t i = 0; i < m->processor_count; i++) {
        const struct msr_line *base = find_msr(&m->processors[i], IA32_APIC_BASE);

        if (base != NULL && !base->faults && base->value & APIC_BASE_BSP)
            return &m->processors[i];
    }
    return m->processor_count > 0 ? m->processors : NULL;
}
