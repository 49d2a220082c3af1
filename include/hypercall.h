/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's interface to the hypervisor: the CPUID leaves that name the hypervisor, and the
 * VMCALL numbers. Guest programs include this file too, so it has plain constants only.
 */
#pragma once

#define PMUVISOR_VERSION_MAJOR 0
#define PMUVISOR_VERSION_MINOR 1
#define PMUVISOR_VERSION_PATCH 0
#define PMUVISOR_VERSION_TEXT "0.1.0"

/* CPUID leaf 0x40000000: EAX = last leaf, EBX ECX EDX = "PMUvisorPMUv". */
#define CPUID_HV_SIGNATURE 0x40000000u
#define PMUVISOR_SIGNATURE_EBX 0x76554d50u /* "PMUv" */
#define PMUVISOR_SIGNATURE_ECX 0x726f7369u /* "isor" */
#define PMUVISOR_SIGNATURE_EDX 0x76554d50u /* "PMUv" */
/* CPUID leaf 0x40000001: EAX = version (major << 16 | minor << 8 | patch), EBX = policy
 * (enum policy of options.h), ECX = bit n is set if hypercall number n is offered (n < 32), EDX =
 * the mitigations below that root mode uses on this processor, or 0 with mitigations=off. */
#define MITIGATION_RSB 1u            /* the return stack buffer is filled after each exit */
#define MITIGATION_IBRS 2u           /* root mode runs with IA32_SPEC_CTRL.IBRS */
#define MITIGATION_L1D 4u            /* the L1 data cache is flushed before each entry */
#define MITIGATION_VERW 8u           /* buffers are overwritten by VERW before each entry */
#define MITIGATIONS_AUTO 0x80000000u /* mitigations=auto, even if the processor needs none */
#define CPUID_HV_FEATURES 0x40000001u
#define CPUID_HV_LAST CPUID_HV_FEATURES

/* VMCALL: RAX has the number. The comments below give arguments -> results. RAX = result; negative
 * = error. */
#define HYPERCALL_NMI_PASSTHROUGH_ON 13  /* -> RAX = 0; as in the thesis's program A.1 */
#define HYPERCALL_NMI_PASSTHROUGH_OFF 14 /* -> RAX = 0; NMIs exit and are injected */
/* The guest calls this for an NMI that no guest handler claims -> RAX = 0: the NMI does not belong
 * to the host, either; > 0: it belongs to the host */
#define HYPERCALL_UNKNOWN_NMI 15
#define HYPERCALL_STATISTICS 16 /* RBX = exit reason, or ~0 for all -> RAX = count */
/* RBX = position -> RAX = n (0..32) bytes of text, in RCX, RDX, RSI, RDI (first byte lowest), RBX =
 * next position */
#define HYPERCALL_LOG 17
/* RBX = branches (at most 2^32, and at most 2^20 periods), RCX = period (100 to 2^32), RDX = when
 * -> RAX = PMIs that the host took, RBX = branches that the host's counter counted */
#define HYPERCALL_HOST_WORK 18
/* RDX: run the work at the next tick -> RAX = 0; the log gets the result */
#define HOST_WORK_AT_TICK 1
/* RDX: run the work now, with branch records on -> RCX = the number of records that come from the
 * work itself, counted when the work ends */
#define HOST_WORK_RECORDS 2
/* 19 to 30 are for experiments and for the test build (tests/hooks/hooks.h). */
#define HYPERCALL_E_PERMISSION (-1L) /* CPL is not 0, and user_hypercalls=0 */
#define HYPERCALL_E_SUPPORT (-95L)   /* this processor cannot serve the call */
#define HYPERCALL_E_ARGUMENT (-22L)
#define HYPERCALL_E_STATE (-16L) /* not now: see the log */
#define HYPERCALL_E_NUMBER (-38L)
