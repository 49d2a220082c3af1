/* SPDX-License-Identifier: BSD-2-Clause
 * abi.h: what the kernel module branchtrace and its users agree on: the device's ioctls and the
 * buffer that it maps. Linux, Documentation/driver-api/ioctl.rst.
 */
#pragma once

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <linux/types.h>
#include <sys/ioctl.h>
#endif

#define BRANCHTRACE_DEVICE "/dev/branchtrace"

/* branchtrace_setup.flags */
#define BRANCHTRACE_USER 1u   /* branches to user mode */
#define BRANCHTRACE_KERNEL 2u /* branches to the kernel */
#define BRANCHTRACE_FAR 4u    /* far branches, interrupts and exceptions too */
/* A PMI every `period` records, not every `period` near branches. */
#define BRANCHTRACE_INSERTS 8u

#define BRANCHTRACE_PERIOD_MAX 1000000u
#define BRANCHTRACE_RECORDS_MAX (1u << 23)

/* A branch goes on from where the one before went to: so many bytes of code at most lie between. */
#define STRAIGHT_MAX 4096u

struct branchtrace_setup {
    __u32 flags;
    __u32 period;
    __u32 records; /* room in the buffer */
    __u32 readouts;
    __u32 region; /* the emulator's, left while the thread is off its processor; 0: none */
    __u32 unused;
};

/* One branch. `info`: bits 15:0 cycles and bit 63 misprediction, as in MSR_LBR_x_INFO. SDM Vol. 3,
 * "Last Branch, Interrupt, and Exception Recording for Processors based on Skylake
 * Microarchitecture". The other bits are the module's. */
struct branchtrace_record {
    __u64 from;
    __u64 to;
    __u64 info;
};
#define BRANCHTRACE_CYCLES 0xffffull
#define BRANCHTRACE_IRET (1ull << 32) /* the kernel's instruction at `from` is an IRET */
#define BRANCHTRACE_MISPREDICTED (1ull << 63)

/* The records between two readouts, and why there was one. */
struct branchtrace_readout {
    __u64 ip;    /* BY_PMI: where the PMI came */
    __u32 first; /* index of its first record */
    __u32 count;
    __u32 missing; /* records overwritten, in front of the first */
    __u16 why;
    __u16 user; /* BY_PMI: it came in user mode */
};
#define BRANCHTRACE_BY_PMI 0
#define BRANCHTRACE_BY_SWITCH 1 /* the thread gave the processor away */
#define BRANCHTRACE_BY_STOP 2

/* What START to STOP gave. The buffer holds the records, then the readouts. */
struct branchtrace_result {
    __u64 near_taken; /* BR_INST_RETIRED.NEAR_TAKEN in the modes that are traced */
    __u64 inserts;    /* ROB_MISC_EVENTS.LBR_INSERTS */
    __u32 records;
    __u32 readouts;
    __u32 pmis;
    __u32 cut;            /* not 0: the trace ends early, and why */
    __u64 readout_offset; /* bytes from the buffer's begin */
};

#define BRANCHTRACE_CUT_FULL 1u  /* the buffer was too small */
#define BRANCHTRACE_CUT_STUCK 2u /* the way back from a PMI is longer than the period */
#define BRANCHTRACE_CUT_MOVED 3u /* the thread went to another processor */

#define BRANCHTRACE_SETUP _IOW('b', 0x40, struct branchtrace_setup)
#define BRANCHTRACE_START _IO('b', 0x41)
#define BRANCHTRACE_STOP _IO('b', 0x42)
#define BRANCHTRACE_RESULT _IOR('b', 0x43, struct branchtrace_result)
