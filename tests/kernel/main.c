/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The test kernel: runs the tests that its command line names and switches the machine off.
 * `tests=A,B,...` with a test `kind[:word][:number...]`; without it, the tests that run anywhere.
 * `@kind...` runs a test on each processor but the first, one after another.
 */
#include "host.h"
#include "kernel.h"
#include "smp.h"

#include <string.h>

#include "console/log.h"

#define KEY "tests="
#define SMP "smp-"
#define EACH '@'

_Noreturn void kernel_main(const struct boot_params *bp);

static const struct {
    const char *kind;
    void (*run)(const struct job *job);
} tests[] = {
#define TEST(kind, function) {kind, function},
#include "tests.inc"
#include "experiments.inc"
#undef TEST
};

static const char everywhere[] = "cpuid,vmcall,msr,count,pmi,self,blocked,sti,movss,hlt,x2apic,"
                                 "pmi,self,blocked,sti,movss,hlt";

static char command_line[COMMAND_LINE_MAX];

bool text_equal(const char *a, const char *b)
{
    return strlen(a) == strlen(b) && memcmp(a, b, strlen(a)) == 0;
}

static void copy_text(char *to, size_t size, const char *from, size_t length)
{
    if (length >= size)
        tap_bail_out("a word of tests= is too long");
    memcpy(to, from, length);
    to[length] = '\0';
}

static size_t until(const char *text, const char *ends)
{
    size_t n = 0;

    while (text[n] != '\0' && text[n] != ends[0] && text[n] != ends[1])
        n++;
    return n;
}

static bool is_number(const char *text, size_t length, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0;
}

static void parse(struct job *job, const char *text, size_t length)
{
    unsigned numbers = 0;

    *job = (struct job){.word = ""};
    copy_text(job->name, sizeof(job->name), text, length);
    for (const char *p = job->name; *p != '\0';) {
        size_t part = until(p, "::");
        uint64_t number;
        if (p == job->name)
            copy_text(job->kind, sizeof(job->kind), p, part);
        else if (numbers < ARGUMENTS_MAX && is_number(p, part, &number))
            job->number[numbers++] = number;
        else if (job->word[0] == '\0' && numbers == 0)
            copy_text(job->word, sizeof(job->word), p, part);
        else
            tap_bail_out("tests=: found a test with more words or numbers than it takes");
        p += part + (p[part] == ':');
    }
}

static void run(const struct job *job)
{
    for (unsigned i = 0; i < LENGTH_OF(tests); i++) {
        if (!text_equal(job->kind, tests[i].kind))
            continue;
        tests[i].run(job);
        if (nmi.action != NULL)
            tap_bail_out("a test left an action for an NMI that never came");
        return;
    }
    tap_result(false, job->name, "there is no such test");
}

/* Tests that know of all processors begin so; the rest leave the others alone. */
static bool knows_others(const char *kind)
{
    return strlen(kind) > strlen(SMP) && memcmp(kind, SMP, strlen(SMP)) == 0;
}

static void run_here_or_there(const struct job *job, bool there)
{
    if (!there && !knows_others(job->kind)) {
        run(job);
        return;
    }
    smp_start();
    cpu_handlers(false);
    if (there)
        smp_each(job, run);
    else
        run(job);
    cpu_handlers(true);
}

static void run_all(const char *list)
{
    struct job job;

    while (*list != '\0' && *list != ' ') {
        bool there = *list == EACH;
        list += there;
        size_t length = until(list, ", ");
        parse(&job, list, length);
        run_here_or_there(&job, there);
        list += length + (list[length] == ',');
    }
}

/* The list behind tests=, where that begins a word. */
static const char *asked(void)
{
    for (const char *p = command_line; *p != '\0'; p++)
        if ((p == command_line || p[-1] == ' ') && strlen(p) >= strlen(KEY) &&
            memcmp(p, KEY, strlen(KEY)) == 0)
            return p + strlen(KEY);
    return everywhere;
}

void kernel_main(const struct boot_params *bp)
{
    uint64_t line = bp->hdr.cmd_line_ptr | (uint64_t)bp->ext_cmd_line_ptr << 32;

    cpu_setup();
    (void)serial_start(SERIAL_COM1, DIVISOR_115200);
    machine_setup(bp);
    if (line != 0) {
        const char *text = (const char *)line;
        size_t length = 0;
        while (length < COMMAND_LINE_MAX - 1 && text[length] != '\0')
            length++;
        copy_text(command_line, sizeof(command_line), text, length);
    }
    log_printf("\nTAP version 13\n");
    tap_note("test kernel, %s, %s", under_pmuvisor() ? "under PMUvisor" : "not under PMUvisor",
             apic_x2() ? "x2APIC" : "xAPIC");
    run_all(asked());
    tap_end();
    machine_off();
}
