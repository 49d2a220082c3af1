/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One question to the image's own code: who answers, and what the answer lacked.
 */
#pragma once

#include <setjmp.h>

#include "boot_info.h"
#include "metal/check/machine.h"

#define UNKNOWNS_MAX 32
#define UNKNOWN_LINE 160
#define UNITS_MAX 64

/* What the machine was asked and does not tell. */
struct unknowns {
    char lines[UNKNOWNS_MAX][UNKNOWN_LINE];
    bool refuses[UNKNOWNS_MAX]; /* it may be a reason to refuse */
    size_t count;
    unsigned asked;  /* grows with each that may change a line, the second of a kind, too */
    bool can_refuse; /* one of them is */
    bool units;      /* registers of VT-d units are among them */
};
extern struct unknowns unknowns;
void note_unknown(const char *what);
void note_obstacle(const char *what); /* that it may be */

/* Where it goes on when a question has no answer at all: if (setjmp(question_end) == 0) ask(); */
extern jmp_buf question_end;

/* The processor that CPUID and RDMSR are executed on from now on. */
void hardware_is(const struct machine *m, const struct processor *p);
/* Its VT-d units as firmware left them, and the memory that the image's tables are in. */
void units_reset(struct range pool);

/* ---- acpi.c ---- */

/* Copies of the tables with lists that name them, as firmware would have them in memory: the
 * address of their RSDP, 0 when the machine told of none. */
uint64_t acpi_make(const struct machine *m);

/* ---- verdict.c ---- */

enum verdict_kind { BOOTS, BOOTS_WITHOUT, REFUSES, NOT_KNOWN };

#define VERDICT_LINES 1200 /* two for each processor */
#define VERDICT_LINE 512
struct verdict {
    enum verdict_kind kind;
    char refusal[400]; /* the image's own sentence, or firmware's reason */
    const char *how;   /* what comes before it */
    struct {
        char text[VERDICT_LINE];
        bool lacks; /* says that something is missing */
    } *lines;       /* what the image logs, as far as it is known */
    size_t count;
    struct unknowns unknowns;
};

/* What pmuvisor.efi says on this machine with this pmuvisor.cfg and these load options, NULL: none.
 */
void judge(const struct machine *m, const char *config, const char *load_options,
           struct verdict *v);

/* ---- start.c: the image's way from its check to the guest's entry ---- */

struct start_result {
    bool refused;
    bool late;         /* firmware is gone by then: the image stops the machine */
    char refusal[384]; /* as struct refusal has it */
};
/* The lines go to the image's log. */
void start_image(const struct machine *m, const char *config, const char *load_options,
                 struct start_result *result);

/* ---- guest.c ---- */

/* What the guest is given of the ACPI tables. False: *r. */
bool check_guest(const struct boot_info *bi, const struct guest_processors *processors,
                 struct refusal *r);
