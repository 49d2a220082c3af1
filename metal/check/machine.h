/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A machine as pmuvisor-check knows it: what a running Linux told, or a dump. What nobody told is
 * not there, and not guessed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status: no verdict was asked for, or none could be had. */
#define STATUS_NOT_ASKED 4

#define LEAF_TOPOLOGY 0xb /* EDX: x2APIC ID; EBX is 0 where there is none (SDM Vol. 2, "CPUID") */
struct cpuid_line {
    uint32_t leaf, subleaf;
    uint32_t eax, ebx, ecx, edx; /* in a row, as the brand string has them */
};

struct msr_line {
    uint32_t index;
    bool faults; /* RDMSR raises #GP: the processor does not have it */
    uint64_t value;
};

struct processor {
    uint32_t number; /* Linux's */
    struct cpuid_line *cpuid;
    struct msr_line *msr;
    size_t cpuid_count, msr_count;
};

/* Linux's names: "System RAM", "ACPI Tables", ... */
#define KIND_MAX 48
#define KIND_RAM "System RAM"
struct memory_line {
    uint64_t first, last; /* addresses, both inside */
    char kind[KIND_MAX];
};

#define SIGNATURE_LENGTH 4
struct table {
    char signature[SIGNATURE_LENGTH + 1];
    uint32_t length;
    uint8_t *bytes;
};

/* A VT-d unit's capability registers. */
struct unit_line {
    uint64_t address, cap, ecap;
};

enum known { UNKNOWN, OFF, ON };

struct machine {
    char *source; /* where a listing is from, NULL: this program wrote it */
    struct processor *processors;
    struct memory_line *memory;
    struct table *tables;
    struct unit_line *units;
    size_t processor_count, memory_count, table_count, unit_count;
    bool tables_complete; /* a table that is not there is not on the machine either */
    uint32_t offline;     /* processors that Linux has, but not online */
    uint32_t tsc_khz;     /* as Linux found it, 0: not told */
    enum known secure_boot;
    enum known image_signed; /* the installed image has a signature, of whomever */
    enum known x2apic;       /* as firmware left it to Linux */
    enum known remapping;    /* of interrupts, as firmware left it */
    char *config;            /* the installed pmuvisor.cfg, NULL: there is none */
    char *facts;             /* lines for the reader, which decide nothing */
};

/* ---- machine.c ---- */

_Noreturn void out_of_memory(void);
/* Makes room for one more in an array of `count` elements; ends the program where memory ends. */
void *one_more(void *array, size_t *count, size_t size);
#define ADD(array, count)                                                                          \
    (*(__typeof__(array))one_more((void **)&(array), &(count), sizeof(*(array))))
/* Appends text to an allocated one, which may be NULL. */
void append_text(char **text, const char *more, size_t length);
/* What is said of it; NULL: nothing. */
const struct cpuid_line *find_cpuid(const struct processor *p, uint32_t leaf, uint32_t subleaf);
const struct msr_line *find_msr(const struct processor *p, uint32_t index);
const struct table *find_table(const struct machine *m, const char *signature);
/* The processor's local APIC ID as CPUID has it. False: not told. */
bool find_apic_id(const struct processor *p, uint32_t *id);
/* The one that firmware ran on. */
const struct processor *boot_processor(const struct machine *m);

/* ---- dump.c ---- */

#define WHY_MAX 400
#define DUMP_TITLE "pmuvisor-check dump 1"
#define DUMP_END "end"

/* The text form, metal/check/README.md. False: *why is one line that says what, where, and what to
 * do. `name` is the file's, for it. */
bool dump_read(struct machine *m, const char *text, size_t length, const char *name,
               char why[WHY_MAX]);

/* ---- linux.c ---- */

/* A dump of the machine that this runs on, needs root. `esp` names the EFI system
 * partition, NULL: it is looked for. NULL: *why. */
char *linux_dump(const char *esp, size_t *length, char why[WHY_MAX]);
