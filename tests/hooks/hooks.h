/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The test build (make TEST=1): hypercalls by which a guest raises host NMIs, starts a second guest
 * and makes root mode fault. No other build has any of it. Usable from guest programs as well:
 * plain constants only.
 */
#pragma once

#define HYPERCALL_TEST_REQUEST_WORD                                                                \
    24 /* -> RAX = physical address of this processor's word of notes,                             \
        * RBX = what a backtrace request ORs into it that has been                                 \
        * sent, RCX = and one that is still being sent; RBX = 1 on                                 \
        * the way in: the sender is done */
#define TEST_SENDER_DONE 1
#define HYPERCALL_TEST_BACKTRACE                                                                   \
    25 /* a backtrace request from root mode to processor RBX - 1;                                 \
        * RBX = 0: to this one */
#define HYPERCALL_TEST_SOURCE                                                                      \
    26 /* RBX = source -> RAX = handled in root, RBX = recovered,                                  \
        * RCX = returned, RDX = raised */
#define HYPERCALL_TEST_SOURCE_MASK 0xff
#define HYPERCALL_TEST_PROCESSOR_SHIFT 8 /* of RBX: whose source, as for the backtrace request */
#define HYPERCALL_TEST_OTHER_GUEST                                                                 \
    27                          /* RBX = MSR, RCX = value: a second guest on this processor        \
                                 * writes and reads it -> RAX = 0, RBX = what it read */
#define HYPERCALL_TEST_FAULT 28 /* RBX = kind: a fault in root mode; does not return */
#define HYPERCALL_TEST_MSR 29   /* RBX = MSR -> RAX = 0, RBX = what the hardware has in it */
#define HYPERCALL_TEST_SPIN 30  /* stays in root mode for ever */
#define HYPERCALL_TEST_TRACE 31 /* RBX = IA32_RTIT_CTL: the entry that loads it injects an NMI */
#define HYPERCALL_TEST_LAST HYPERCALL_TEST_TRACE
