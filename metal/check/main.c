/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pmuvisor-check: would PMUvisor boot on this machine, and without what? Asks the image's own code
 * under a running Linux, or of a dump. metal/check/README.md.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
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

static __attribute__((format(printf, 1, 2))) int not_asked(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "pmuvisor-check: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
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

#define LEAF_KIND 0x1a
#define CPUID_7_EDX_HYBRID (1u << 15)
#define KIND_SHIFT 24
#define NATIVE_MODEL 0xffffffu

static uint32_t kind_of(const struct processor *p)
{
    const struct cpuid_line *line = find_cpuid(p, LEAF_KIND, 0);

    return line == NULL ? 0 : line->eax;
}

static const char *kind_name(uint32_t kind)
{
    switch (kind >> KIND_SHIFT) {
    case 0x20:
        return "Atom";
    case 0x40:
        return "Core";
    }
    return "of an unknown kind";
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

/* The kinds of a hybrid machine's processors, which have PMUs of their own (SDM Vol. 2, "CPUID",
 * leaves 07H and 1AH). A processor that the dump leaves out is like the one before it. */
static void print_kinds(const struct machine *m)
{
    const struct cpuid_line *features = find_cpuid(boot_processor(m), CPUID_LEAF_EXTENDED, 0);
    const char *before = "  kinds: ";
    size_t next;

    if (features == NULL || !(features->edx & CPUID_7_EDX_HYBRID))
        return;
    for (size_t i = 0; i < m->processor_count; i = next) {
        uint32_t kind = kind_of(&m->processors[i]);

        for (next = i + 1; next < m->processor_count && kind_of(&m->processors[next]) == kind;)
            next++;
        printf("%s%u", before, (unsigned)m->processors[i].number);
        if (next > i + 1)
            printf("-%u", (unsigned)m->processors[next - 1].number);
        printf(" %s, native model %u", kind_name(kind), (unsigned)(kind & NATIVE_MODEL));
        before = "; ";
    }
    printf("; %u measures\n", (unsigned)boot_processor(m)->number);
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
    print_kinds(m);
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
    enum { FROM, ESP, CONFIG, OPTIONS, TEXTS, HELP, VERSION };
    static int dump, brief, log;
    static const struct option options[] = {{"from", required_argument, NULL, FROM},
                                            {"dump", no_argument, &dump, true},
                                            {"esp", required_argument, NULL, ESP},
                                            {"config", required_argument, NULL, CONFIG},
                                            {"options", required_argument, NULL, OPTIONS},
                                            {"brief", no_argument, &brief, true},
                                            {"log", no_argument, &log, true},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {NULL, 0, NULL, 0}};
    const char *texts[TEXTS] = {NULL}, *from;
    char why[WHY_MAX];
    struct machine m;
    struct verdict v;
    size_t length = 0;
    int at;

    for (int c; (c = getopt_long(argc, argv, "", options, &at)) != -1;)
        if (c == HELP) {
            printf("%s", usage);
            return 0;
        } else if (c == VERSION) {
            printf("pmuvisor-check " PMUVISOR_VERSION_TEXT "\n");
            return 0;
        } else if (c == '?') {
            fprintf(stderr, "%s", usage);
            return STATUS_NOT_ASKED;
        } else if (options[at].flag == NULL) {
            texts[c] = optarg;
        }
    from = texts[FROM];
    if (optind < argc)
        return not_asked("found '%s', wanted an option; see --help", argv[optind]);
    char *text = from != NULL ? file_text(from, &length) : linux_dump(texts[ESP], &length, why);
    if (text == NULL && from == NULL)
        return not_asked("%s; %s", why, what_cpuid_tells());
    if (text == NULL)
        return not_asked("cannot read %s: %s", from, strerror(errno));
    if (!dump_read(&m, text, length, from != NULL ? from : "this machine", why))
        return not_asked("%s", why);
    if (dump)
        return fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0
                   ? 0
                   : not_asked("cannot write the dump");
    if (texts[CONFIG] != NULL && (m.config = file_text(texts[CONFIG], NULL)) == NULL)
        return not_asked("cannot read %s: %s", texts[CONFIG], strerror(errno));
    judge(&m, m.config, texts[OPTIONS], &v);
    if (log)
        print_log(&v);
    else if (brief)
        print_brief(&v);
    else
        print_verdict(&m, &v);
    return (int)v.kind;
}
