/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pmuvisor-check: would PMUvisor boot on this machine, and without what? Asks the image's own code
 * under a running Linux, or of a dump. metal/check/README.md.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypercall.h"
#include "msr.h"
#include "metal/check/linux_files.h"
#include "metal/check/question.h"
#include "x86.h"

static const char usage[] =
    "usage: pmuvisor-check [--from FILE | --dump] [option ...]\n"
    "  --from FILE     judge the machine of a dump, in place of this one\n"
    "  --dump          write this machine as text to stdout, and judge nothing\n"
    "  --esp DIR       where the EFI system partition is mounted (default: the usual places)\n"
    "  --config FILE   this pmuvisor.cfg, not the installed one\n"
    "  --options TEXT  load options, which win over pmuvisor.cfg\n"
    "  --brief         one line\n"
    "  --log           all that the image would log, as far as it is known\n"
    "exit status: 0 boots, 1 boots without something, 2 refuses, 3 not known,\n"
    "             4 could not be asked\n";

static int not_asked(const char *why)
{
    fprintf(stderr, "pmuvisor-check: %s\n", why);
    return STATUS_NOT_ASKED;
}

/* The one thing that CPUID tells without root and without the kernel's module msr. */
static const char *what_cpuid_tells(void)
{
    unsigned eax, ebx, ecx = 0, edx;

    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    return ecx & CPUID_1_ECX_VMX ? "this processor shows VMX (CPUID.1:ECX bit 5)"
                                 : "this processor shows no VMX (CPUID.1:ECX bit 5), and PMUvisor "
                                   "refuses to start without";
}

static void print_text(const char *indent, const char *text)
{
    for (const char *end; text != NULL && *text != '\0'; text = *end == '\0' ? end : end + 1) {
        end = strchrnul(text, '\n');
        printf("%s%.*s\n", indent, (int)(end - text), text);
    }
}

/* Without what all of them begin with. */
static const char *shortened(const char *line)
{
    static const char image[] = "pmuvisor: ";

    return strncmp(line, image, strlen(image)) == 0 ? line + strlen(image) : line;
}

static void print_lines(const char *before, const struct verdict *v, const char *between)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->lines[i].lacks) {
            printf("%s%s", before, shortened(v->lines[i].text));
            before = between;
        }
}

static void print_unknowns(const char *before, const struct verdict *v, const char *between,
                           bool all)
{
    for (size_t i = 0; i < v->unknowns.count; i++) {
        if (!all && !v->unknowns.refuses[i])
            continue;
        printf("%s%s", before, v->unknowns.lines[i]);
        before = between;
    }
}

static void print_brief(const struct verdict *v)
{
    switch (v->kind) {
    case BOOTS:
        printf("PMUvisor boots");
        break;
    case REFUSES:
        printf("%s%s", v->how, v->refusal);
        break;
    case BOOTS_WITHOUT:
        print_lines("PMUvisor boots, but: ", v, "; ");
        break;
    case NOT_KNOWN:
        print_unknowns("not known whether PMUvisor boots: ", v, "; ", false);
        break;
    }
    printf("\n");
}

/* How many, what they call themselves (SDM Vol. 2, "CPUID", "The Processor Brand String Method"),
 * and their microcode. */
static void print_processors(const struct machine *m)
{
    const struct processor *p = boot_processor(m);
    const struct msr_line *microcode = find_msr(p, IA32_BIOS_SIGN_ID);
    char brand[3 * 16 + 1] = "";

    for (uint32_t i = 0; i < 3; i++) {
        const struct cpuid_line *c = find_cpuid(p, CPUID_LEAF_EXTENDED_1 + 1 + i, 0);

        if (c != NULL)
            memcpy(brand + 16 * i, &c->eax, 16);
    }
    for (char *at = brand; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    printf("  processors: %zu", m->processor_count);
    if (brand[0] != '\0')
        printf(", %s", brand + strspn(brand, " "));
    if (microcode != NULL && !microcode->faults)
        printf(", microcode 0x%llx", (unsigned long long)(microcode->value >> 32));
    if (m->tsc_khz != 0)
        printf(", TSC %lu.%03lu MHz", (unsigned long)m->tsc_khz / 1000,
               (unsigned long)m->tsc_khz % 1000);
    printf("\n");
}

static void print_verdict(const struct machine *m, const struct verdict *v)
{
    static const char *const titles[] = {
        [BOOTS] = "PMUvisor boots.\n",
        [BOOTS_WITHOUT] = "PMUvisor boots, but:\n",
        [NOT_KNOWN] =
            "Not known whether PMUvisor boots: nothing that is known stands against it.\n"};

    if (v->kind == REFUSES)
        printf("%s%s\n", v->how, v->refusal);
    else
        printf("%s", titles[v->kind]);
    if (v->kind != BOOTS)
        print_lines("  ", v, "\n  ");
    for (size_t i = 0; i < v->count && v->kind != BOOTS; i++)
        if (v->lines[i].lacks) {
            printf("\n");
            break;
        }
    if (v->unknowns.count > 0) {
        printf("Not known:\n");
        print_unknowns("  ", v, "\n  ", true);
        printf("\n");
    }
    printf("The machine:\n");
    print_processors(m);
    print_text("  ", m->facts);
    print_text("  ", m->source);
}

static void print_log(const struct verdict *v)
{
    for (size_t i = 0; i < v->count; i++)
        printf("%s\n", v->lines[i].text);
    if (v->refusal[0] != '\0')
        printf("%s%s\n", v->how, v->refusal);
}

int main(int argc, char *argv[])
{
    static const struct option options[] = {
        {"from", required_argument, NULL, 'f'},    {"dump", no_argument, NULL, 'd'},
        {"esp", required_argument, NULL, 'e'},     {"config", required_argument, NULL, 'c'},
        {"options", required_argument, NULL, 'o'}, {"brief", no_argument, NULL, 'b'},
        {"log", no_argument, NULL, 'l'},           {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0}};
    const char *from = NULL, *esp = NULL, *config_file = NULL, *load_options = NULL;
    bool dump = false, brief = false, log = false;
    char why[WHY_MAX];
    struct machine m = {0};
    struct verdict v;
    size_t length = 0;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'f':
            from = optarg;
            break;
        case 'd':
            dump = true;
            break;
        case 'e':
            esp = optarg;
            break;
        case 'c':
            config_file = optarg;
            break;
        case 'o':
            load_options = optarg;
            break;
        case 'b':
            brief = true;
            break;
        case 'l':
            log = true;
            break;
        case 'h':
            printf("%s", usage);
            return 0;
        case 'v':
            printf("pmuvisor-check " PMUVISOR_VERSION_TEXT "\n");
            return 0;
        default:
            fprintf(stderr, "%s", usage);
            return STATUS_NOT_ASKED;
        }
    if (optind < argc) {
        fprintf(stderr, "pmuvisor-check: found '%s', wanted an option; see --help\n", argv[optind]);
        return STATUS_NOT_ASKED;
    }
    if (from != NULL) {
        char *text = file_text(from, &length);

        if (text == NULL) {
            snprintf(why, sizeof(why), "cannot read %.300s: %s", from, strerror(errno));
            return not_asked(why);
        }
        bool whole = dump_read(&m, text, length, from, why);
        free(text);
        if (!whole)
            return not_asked(why);
    } else if (!linux_read(&m, esp, why)) {
        fprintf(stderr, "pmuvisor-check: %s; %s\n", why, what_cpuid_tells());
        return STATUS_NOT_ASKED;
    }
    if (dump) {
        dump_write(&m, stdout);
        machine_free(&m);
        return ferror(stdout) || fflush(stdout) != 0 ? not_asked("cannot write the dump") : 0;
    }
    char *config = config_file == NULL ? NULL : file_text(config_file, NULL);
    if (config_file != NULL && config == NULL) {
        snprintf(why, sizeof(why), "cannot read %.300s: %s", config_file, strerror(errno));
        return not_asked(why);
    }
    judge(&m, config != NULL ? config : m.config, load_options, &v);
    if (log)
        print_log(&v);
    else if (brief)
        print_brief(&v);
    else
        print_verdict(&m, &v);
    int status = (int)v.kind;
    verdict_free(&v);
    machine_free(&m);
    free(config);
    return status;
}
