/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libipt_branches.c: the branches of a trace of Intel PT, as Intel's own decoder (libipt) finds
 * them: perf's, with which they are compared, is another one. Usage: libipt_branches TRACE PROGRAM
 * PROGRAM: the ELF file of what was traced, not PIE. Prints a line `FROM TO`
 * for each taken branch, in hexadecimal; 0 where the trace ends or begins. An exit status of 1: a
 * line on stderr says which error came where.
 */
#include "tests/e2e/libipt_trace.h"

#include <elf.h>
#include <stdbool.h>

static struct pt_image *image_of(const char *path)
{
    struct pt_image *image = pt_image_alloc(NULL);
    FILE *file = fopen(path, "re");
    Elf64_Ehdr header;
    Elf64_Phdr part;

    if (image == NULL || file == NULL || fread(&header, sizeof(header), 1, file) != 1)
        give_up(path, -pte_bad_file, 0);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (fseek(file, (long)(header.e_phoff + i * sizeof(part)), SEEK_SET) != 0 ||
            fread(&part, sizeof(part), 1, file) != 1)
            give_up(path, -pte_bad_file, i);
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X))
            continue;
        int error = pt_image_add_file(image, path, part.p_offset, part.p_filesz, NULL,
                                      part.p_vaddr);
        if (error < 0)
            give_up(path, error, part.p_vaddr);
    }
    fclose(file);
    return image;
}

static void branch(uint64_t from, uint64_t to) { printf("%lx %lx\n", from, to); }

/* An instruction that may have branched, until it is known where to. */
static struct pt_insn last;

static void went_to(uint64_t ip)
{
    bool taken = last.iclass != ptic_other && last.iclass != ptic_ptwrite;

    if (last.iclass == ptic_cond_jump)
        taken = ip != last.ip + last.size;
    if (taken)
        branch(last.ip, ip);
    last.iclass = ptic_other;
}

static void event(const struct pt_event *e)
{
    /* Since libipt 2.1 PSB+ has an event as well: it repeats that the trace is on, and nothing has
     * branched. */
    if (e->status_update)
        return;
    switch (e->type) {
    case ptev_enabled:
        branch(0, e->variant.enabled.ip);
        break;
    case ptev_disabled:
        branch(last.ip, 0);
        last.iclass = ptic_other;
        break;
    case ptev_async_disabled:
        went_to(e->variant.async_disabled.at);
        branch(e->variant.async_disabled.at, 0);
        break;
    case ptev_async_branch:
        went_to(e->variant.async_branch.from);
        branch(e->variant.async_branch.from, e->variant.async_branch.to);
        break;
    case ptev_overflow:
        give_up("the trace", -pte_overflow, last.ip);
        break;
    default:
        break; /* of time, of the mode, of what is not asked for */
    }
}

int main(int argc, char *argv[])
{
    struct pt_insn instruction;
    struct pt_event e;

    if (argc != 3)
        return 2;
    struct pt_config config = config_of(argv[1]);
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    if (decoder == NULL || pt_insn_set_image(decoder, image_of(argv[2])) < 0)
        give_up(argv[2], -pte_nomem, 0);
    last.iclass = ptic_other;
    int status = pt_insn_sync_forward(decoder);
    while (status >= 0) {
        while (status >= 0 && status & pts_event_pending) {
            status = pt_insn_event(decoder, &e, sizeof(e));
            if (status >= 0)
                event(&e);
        }
        if (status < 0 || status & pts_eos)
            break;
        status = pt_insn_next(decoder, &instruction, sizeof(instruction));
        if (status < 0 && status != -pte_eos)
            break;
        went_to(instruction.ip);
        last = instruction;
    }
    if (status < 0 && status != -pte_eos)
        give_up("the trace", status, instruction.ip);
    return 0;
}
