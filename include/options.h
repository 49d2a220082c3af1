/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options that the user sets in pmuvisor.cfg and in the load options. boot/options.c fills
 * struct options. After that, everyone reads the struct and nobody changes it. The options of an
 * experiment are in the experiment's own storage (experiment.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct refusal;

enum policy { POLICY_INTERCEPT, POLICY_MSR, POLICY_MSR_NMI };
/* Values of options.console: an I/O port, CONSOLE_NONE or CONSOLE_AUTO. */
#define CONSOLE_NONE 0
#define CONSOLE_AUTO 0x10000    /* the port that ACPI's SPCR names, else COM1 */
#define CONSOLE_PORT_MAX 0xfff8 /* a UART has eight ports */

/* The steps of NMI bookkeeping. Each can be left out, to measure its cost or to see its purpose. */
enum bookkeeping_step {
    BOOKKEEPING_LOST = 1,    /* host NMIs that the guest took are found after the next exit */
    BOOKKEEPING_SKID = 2,    /* a guest PMI that arrives in root mode is given to the guest */
    BOOKKEEPING_UNBLOCK = 4, /* root mode unblocks NMIs if the guest was in its NMI handler */
    BOOKKEEPING_MASK = 8,    /* host work unmasks the PMI, and restores LVTPC */
    BOOKKEEPING_ALL = 15,
};
#define TICK_DEFAULT_MS 100
#define TICK_MAX_MS 10000
#define WAIT_DEFAULT_S 15
#define WAIT_MAX_S 3600
#define PROCESSORS_MAX 512

#define OPTION_PATH_MAX 256
#define OPTION_APPEND_MAX 2048 /* COMMAND_LINE_SIZE of Linux on x86 */

struct options {
    enum policy policy;      /* the core's policy, on which an experiment's policy is based */
    const char *policy_name; /* the policy's name as the user writes it */
    uint32_t console;
    bool apic_trap;       /* apic=trap: the guest's accesses to the local APIC exit */
    bool hypervisor_bit;  /* CPUID.1:ECX[31] is 1 */
    bool pmu;             /* pmu=on: without an architectural PMU the start is refused */
    bool pt;              /* the guest has Intel PT if VMX can keep root mode out of its traces */
    bool stats_cycles;    /* stats=cycles: RDTSC around every exit */
    bool user_hypercalls; /* VMCALL is served at CPL 1 to 3 too */
    bool unblock_lazy;    /* exits from the guest's NMI handler keep NMIs blocked until host work */
    bool platform_nmi_host; /* the host gets the NMIs of SERR and IOCHK; port 0x61 is trapped */
    bool mitigations_off;   /* exits and entries do nothing against speculative execution */
    uint32_t bookkeeping;   /* enum bookkeeping_step bits */
    bool fault_reset;       /* a fault in root mode resets the machine after wait_s */
    bool start;             /* off: save the last run's log and do nothing else */
    uint32_t wait_s;        /* seconds to read a refusal, or a fault that ends in a reset */
    uint32_t tick_ms;       /* 0: no tick */
    uint32_t processors;    /* start at most this number; 0: all; see also struct settings */
    bool vtd;               /* VT-d lets devices reach only what the guest's EPT maps */
    char kernel[OPTION_PATH_MAX]; /* relative to the folder of the image unless it starts with a
                                     separator */
    char initrd[OPTION_PATH_MAX];
    char append[OPTION_APPEND_MAX];
};

/* The values that apply on this machine, for the options whose value may differ from the user's
 * choice. settings_derive() computes them once (vmx/settings.h), and nobody changes them
 * afterwards. */
struct settings {
    bool monitor_hidden; /* CPUID hides MONITOR and MWAIT, so the guest idles by HLT */
    uint32_t processors; /* start at most this number, the first one included */
};

enum option_kind {
    CHOICE, /* one of the names */
    STEPS,  /* any of the names, separated by commas; their values are ORed */
    NUMBER, /* a number from 0 to the value of the first choice */
    PORT,   /* one of the names, or an I/O port: 0x and hexadecimal digits */
    TEXT,   /* may be empty if the row's `wanted` is NULL */
    REST,   /* text up to the end of its line, including blanks */
};

struct option_choice {
    const char *name;
    uint32_t value;
};

/* A row of boot/option_table.h, or of an experiment's table. */
#define OPTION_CHOICES_MAX 6
struct option_row {
    const char *key;
    enum option_kind kind;
    uint32_t offset; /* the field's offset in struct options */
    uint32_t size;   /* the field's size in bytes; a choice or a number is an integer or a bool */
    const char *wanted; /* the valid values, as an error message names them */
    struct option_choice choices[OPTION_CHOICES_MAX];
    void *field;      /* only in an experiment's row: the field, which is not in struct options */
    uint32_t initial; /* only in an experiment's row: the field's default */
};

/* Sets the defaults. Call it before any source is read. */
void options_default(struct options *o);

/* Reads one source. `text` is ASCII, not terminated, and has `length` bytes. `source` is the name
 * for errors ("load options", "pmuvisor.cfg"). Blanks and line ends separate tokens, `#` at the
 * start of a line begins a comment, and `append=` takes the rest of its line. A later source wins.
 * On failure, returns false and says in *r what is wrong. */
bool options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                   struct refusal *r);
