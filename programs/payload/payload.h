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

static inline uint64_t time_stamp(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* The time stamp at init's first line; 0: this is not the first process. */
extern uint64_t init_started;

/* A job prints its findings as lines "name: key=value ..." and returns 0, or 1 when it failed. */
struct job {
    const char *name;
    int (*run)(void);
};

int job_a1(void);
int job_a1bench(void);
int job_a1again(void);
int job_report(void);
int job_cpuinfo(void);
int job_sees(void);
int job_cpuid(void);
int job_interrupts(void);
int job_watchdog(void);
int job_perf(void);
int job_efivars(void);
int job_touch(void);
int job_badmsr(void);
int job_log(void);
int job_kernellog(void);
int job_hosttick(void);
int job_hostwork(void);
int job_module(void);
int job_returned(void);
int job_returnedall(void);
int job_ptrace(void);
int job_storm(void);
int job_hotplug0(void);
int job_rebootby(void);
int job_resctrl(void);
int job_lockup(void);
int job_kdump(void);
int job_skid(void);
int job_switch(void);
int job_spin(void);
int job_context_switch(void);
int job_masking(void);
int job_nmilog(void);
int job_apic(void);
int job_apicbad(void);
int job_kvm(void);
int job_smp(void);
int job_a1smp(void);
int job_pmiall(void);
int job_switchall(void);
int job_watchdogs(void);
int job_sysrql(void);
int job_moves(void);
int job_hotplug(void);
int job_loops(void);
int job_statall(void);
int job_recordall(void);
int job_recordbranches(void);
int job_kexec(void);
int job_panic(void);
int job_program(void);

/* A line "mitigation: NAME: TEXT" for each vulnerability that Linux knows. */
void print_mitigations(void);

/* Prints the A.1 table of the last job_a1; false when it has not run. */
bool a1_print_table(void);

/* Lifts perf's limits on the rate of samples and on the time that PMIs may take, either of which
 * would throttle an event of a short period, and stops the NMI watchdog, whose PMIs would count as
 * the caller's. 0, or -errno of the limits. */
int perf_lift_limits(void);

/* A counter of this process's branches in user mode, not yet enabled, with a PMI every `period` of
 * them; 0: none. A file descriptor; -1 and errno. */
int open_user_branches(uint64_t period);

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

/* Sum over all processors of one line of /proc/interrupts ("NMI", "PMI"), -1 when absent. */
long long interrupt_count(const char *name);

/* Loads /lib/modules/NAME.ko; 0 also when it is already there; -errno. */
int load_module(const char *name);
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

/* A hypercall without arguments. Only when hyper_present(). */
long hyper_call(long number);
