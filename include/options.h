/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the user asked for, from pmuvisor.cfg and the load options. Filled by boot/options.c,
 * read by everyone, changed by nobody afterwards. What an experiment adds lies in storage of its
 * own (experiment.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct refusal;

enum policy { POLICY_INTERCEPT, POLICY_MSR, POLICY_MSR_NMI };
/* An I/O port, or: */
#define CONSOLE_NONE 0
#define CONSOLE_AUTO 0x10000    /* the one that ACPI's SPCR names, else COM1 */
#define CONSOLE_PORT_MAX 0xfff8 /* a UART has eight */

/* The steps of NMI bookkeeping, each of which can be left out to price it, or to see what it is
 * for. */
enum bookkeeping_step {
    BOOKKEEPING_LOST = 1,    /* host NMIs that the guest took are found after the next exit */
    BOOKKEEPING_SKID = 2,    /* a guest PMI that lands in root mode is given to the guest */
    BOOKKEEPING_UNBLOCK = 4, /* root mode is unblocked when the guest was in its NMI handler */
    BOOKKEEPING_MASK = 8,    /* host work unmasks the PMI, and puts LVTPC back */
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
    enum policy policy;      /* the core's: an experiment's is based on one of them */
    const char *policy_name; /* as the user writes it */
    uint32_t console;
    bool apic_trap;         /* apic=trap was asked for; what holds is in struct settings */
    bool hypervisor_bit;    /* CPUID.1:ECX[31] is 1 */
    bool pmu;               /* pmu=on: without an architectural PMU the start is refused */
    bool pt;                /* the guest has Intel PT where VMX keeps root mode out of it */
    bool stats_cycles;      /* stats=cycles: RDTSC around every exit */
    bool user_hypercalls;   /* VMCALL at CPL 1 to 3 is served too */
    bool unblock_lazy;      /* root mode stays NMI-blocked with the guest, but before host work */
    bool platform_nmi_host; /* SERR and IOCHK are the host's, and port 0x61 is trapped */
    bool mitigations_off;   /* nothing is done against speculative execution at exits and entries */
    uint32_t bookkeeping;   /* enum bookkeeping_step bits */
    bool fault_reset;       /* a fault in root mode ends in a reset, after wait_s */
    bool start;             /* off: the last run's log is saved, and that is all */
    uint32_t wait_s;        /* how long a refusal, or a fault that ends in a reset, can be read */
    uint32_t tick_ms;       /* 0: no tick */
    uint32_t processors; /* at most so many are started, 0: all; what holds is in struct settings */
    bool vtd;            /* devices are kept to the guest's map where there is VT-d */
    char kernel[OPTION_PATH_MAX]; /* relative to the folder of the image unless it starts with a
                                     separator */
    char initrd[OPTION_PATH_MAX];
    char append[OPTION_APPEND_MAX];
};

/* What holds on this machine, where that may differ from what the user asked for. Derived once,
 * from options and facts (vmx/settings.h), and changed by nobody afterwards. */
struct settings {
    bool apic_trap;      /* asked for, or needed to see SIPIs being sent */
    bool monitor_hidden; /* MONITOR and MWAIT are not shown: idle is HLT */
    uint32_t processors; /* that are started at most, the first one with them */
};

enum option_kind {
    CHOICE, /* one of the names */
    STEPS,  /* any of the names, separated by commas: their values are ORed */
    NUMBER, /* from 0 to the first value */
    PORT,   /* one of the names, or an I/O port in hexadecimal digits behind 0x */
    TEXT,   /* may be empty where nothing is said to be wanted */
    REST,   /* text up to the end of its line, blanks and all */
};

struct option_choice {
    const char *name;
    uint32_t value;
};

/* A row of boot/option_table.h, or of an experiment's. */
#define OPTION_CHOICES_MAX 6
struct option_row {
    const char *key;
    enum option_kind kind;
    uint32_t offset;    /* of the field in struct options */
    uint32_t size;      /* of the field; for choices and numbers, an integer or a bool */
    const char *wanted; /* what an error says is wanted */
    struct option_choice choices[OPTION_CHOICES_MAX];
    void *field;      /* only in an experiment's row: the field, which is not in struct options */
    uint32_t initial; /* only in an experiment's row: the field's default */
};

/* The defaults, before any source is read. */
void options_default(struct options *o);

/* Reads one source. `text` is ASCII, not terminated, `length` bytes; `source` names it in errors
 * ("load options", "pmuvisor.cfg"). Tokens are separated by blanks and line ends, `#` at the start
 * of a line begins a comment, `append=` takes the rest of its line. A later source wins. */
bool options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                   struct refusal *r);
