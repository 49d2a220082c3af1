/* SPDX-License-Identifier: BSD-2-Clause
 * payload.h: what the guest's programs share: the job table, the region marker, small helpers.
 * Everything here runs in Linux user space as PID 1, natively and under PMUvisor alike.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../command_line.h"
#include "../measure/region.h"

/* Regions of the emulator's ledger. The marker costs nothing on hardware (see region_mark). */
enum region {
    REGION_A1_FIRST = 1,          /* 1, 2, 3, 4: the A.1 runs, in the order of a1_periods */
    REGION_CPUID = 50,            /* CPUID_ROUNDS CPUID instructions in a row */
    REGION_SKID = 60,             /* the job skid's load */
    REGION_SWITCH = 61,           /* the job switch's load */
    REGION_SPIN = 62,             /* the job spin's loop */
    REGION_A1_SMP = 3000,         /* + 10 * cpu + number of the period: the job a1smp */
    REGION_A1_AGAIN = 3300,       /* to 3799: the job a1again, run by run, in each as a1_periods */
    REGION_A1BENCH = 2300,        /* to 2303: the job a1bench, the whole program, as a1_periods */
    REGION_A1BENCH_INNER = 2310,  /* to 2313: the same between the hypercalls */
    REGION_CONTEXT_SWITCH = 2320, /* the job context_switch: without counters, and 2321 with */
    REGION_USER = 100, /* from the first line of init to the end of the run; never closed */
};

/* How many CPUID instructions REGION_CPUID holds. */
#define CPUID_ROUNDS 100

static inline void region_begin(uint32_t id) { region_mark(id, true); }

static inline void region_end(uint32_t id) { region_mark(id, false); }

/* As many branches, and nothing else. */
static inline void spin_branches(uint64_t count)
{
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(count) : : "cc");
}

static inline uint64_t time_stamp(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* The time stamp at init's first line; 0: this is not the first process. */
extern uint64_t init_started;

/* A job prints its findings as lines "name: key=value ..." and returns 0, or 1 when it failed.
 * JOB() defines one and puts it into the table that init runs jobs from. */
struct job {
    const char *name;
    int (*run)(void);
} __attribute__((aligned(16)));

#define JOB(name)                                                                                  \
    static int job_##name(void);                                                                   \
    static const struct job row_##name                                                             \
        __attribute__((used, section("jobs"))) = {#name, job_##name};                              \
    static int job_##name(void)

/* Prints that the job has failed, at what, and by which error. Returns 1. */
int fail_job(const char *job, const char *what, int error);

/* A line "mitigation: NAME: TEXT" for each vulnerability that Linux knows. */
void print_mitigations(void);

/* Prints the A.1 table of the last job_a1; false when it has not run. */
bool a1_print_table(void);

#define PMUS "/sys/bus/event_source/devices" /* a folder for each PMU */

/* Lifts perf's limits on the rate of samples and on the time that PMIs may take, either of which
 * would throttle an event of a short period, and stops the NMI watchdog, whose PMIs would count as
 * the caller's. 0, or -errno of the limits. */
int perf_lift_limits(void);

/* A counter of this process's branches in user mode, not yet enabled, with a PMI every `period` of
 * them; 0: none. A file descriptor; -1 and errno. */
int open_user_branches(uint64_t period);

/* Stops a counter, and returns what it has counted; -1: it cannot be read. */
long long stop_counter(int fd);

/* The watchdog's state, to be put back; a kernel may have none. */
bool nmi_watchdog_runs(void);
void nmi_watchdog_set(bool on);

/* The local APIC's register of the PMI, in xAPIC mode; needs iomem=relaxed on the kernel's command
 * line. NULL when /dev/mem refuses. Stays mapped. */
volatile uint32_t *map_lvtpc(void);
#define LVT_MASKED 0x10000u

/* Reads a small file whole into a static buffer, NUL-terminated; NULL when it cannot. */
char *read_text(const char *path);

/* Writes text to an existing file such as a sysctl; 0, or -errno. */
int write_text(const char *path, const char *text);

/* The next non-empty word of a text, cut out of it; NULL at its end, and if there is no text. */
char *next_word(char **text, const char *ends);

/* Runs a program to its end: its exit status, 128 and the number of the signal that ended it, or
 * 127 if it cannot run. `output`: the file for stdout and stderr, or NULL. */
int run_program(const char *output, char *const words[]);

/* Sum over all processors of one line of /proc/interrupts ("NMI", "PMI"), -1 when absent. */
long long interrupt_count(const char *name);

/* Loads /lib/modules/NAME.ko; 0 also when it is already there; -errno. */
int load_module(const char *name);
int load_module_with(const char *name, const char *parameters);
/* A time that was taken once, in ticks of the TSC, as a line of bench/README.md. In the emulator it
 * is none. */
void print_ticks(const char *experiment, const char *item, unsigned region, unsigned ops,
                 uint64_t ticks);
/* Those that the image's words disk:NAME brought, in their order (pack.sh). One that cannot be
 * loaded is no failure: the kernel may have it built in. */
void load_drivers(void);

/* The files of a kernel that this one starts (next_kernel.c), and the size of its command line. */
#define NEXT_KERNEL "/kexec/vmlinuz"
#define NEXT_INITRD "/kexec/initrd"
#define NEXT_LINE_MAX 2048

/* This kernel's words without its jobs and its memory for a crash kernel. The next kernel's jobs
 * are the value of pmv.kexec, or `fallback`. */
void next_command_line(const char *fallback, char *line, size_t size);

/* Loads a crash kernel with such a command line; this kernel makes its parameters. The crash kernel
 * has one processor: an INIT of the machine's first one would end it on another. 0, or -errno. */
int load_crash_kernel(const char *fallback);

/* Prints the kernel log's lines that contain one of the words. Returns how many. */
int print_kernel_log(const char *prefix, const char *const words[], size_t count);

struct cpuid_regs {
    uint32_t eax, ebx, ecx, edx;
};

struct cpuid_regs cpuid(uint32_t leaf, uint32_t subleaf);

/* True when the hypervisor leaves carry PMUvisor's signature: only then is VMCALL allowed. */
bool hyper_present(void);

/* "msr+nmi" and so on, from PMUvisor's information leaf. Only when hyper_present(). */
const char *hyper_policy(void);

/* A hypercall: RAX, and RBX, RCX and RDX, which it may change. Only when hyper_present(). */
struct hyper_answer {
    long rax;
    uint64_t rbx, rcx, rdx;
};

static inline struct hyper_answer hyper_call_with(long number, uint64_t rbx, uint64_t rcx,
                                                  uint64_t rdx)
{
    struct hyper_answer a = {number, rbx, rcx, rdx};

    __asm__ volatile("vmcall" : "+a"(a.rax), "+b"(a.rbx), "+c"(a.rcx), "+d"(a.rdx) : : "memory");
    return a;
}

static inline long hyper_call(long number) { return hyper_call_with(number, 0, 0, 0).rax; }
