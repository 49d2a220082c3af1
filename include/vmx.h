/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits of the VMX controls, and of VMCS fields that are structures, by the SDM's names.
 * SDM Vol. 3, "VM-Execution Control Fields", "VM-Exit Controls", "VM-Entry Controls",
 * "Guest Non-Register State", "VMX Basic Exit Reasons".
 */
#pragma once

#include "bits.h"

/* IA32_VMX_BASIC */
#define VMX_BASIC_REVISION BITS(30, 0)
#define VMX_BASIC_MEMORY_TYPE_SHIFT 50
#define VMX_BASIC_MEMORY_TYPE_MASK 0xfULL
#define VMX_BASIC_MEMORY_TYPE_WB 6
#define VMX_BASIC_TRUE_CONTROLS BIT(55)

/* IA32_VMX_MISC */
#define VMX_MISC_TIMER_RATE BITS(4, 0) /* number of the TSC bit whose changes the timer counts */
#define VMX_MISC_ACTIVITY_HLT BIT(6)
#define VMX_MISC_ACTIVITY_WAIT_FOR_SIPI BIT(8)
#define VMX_MISC_PT BIT(14)

/* IA32_VMX_EPT_VPID_CAP */
#define EPT_CAP_WALK_4 BIT(6)
#define EPT_CAP_MEMORY_WB BIT(14)
#define EPT_CAP_PAGE_2M BIT(16)
#define EPT_CAP_PAGE_1G BIT(17)
#define EPT_CAP_INVEPT_ALL BIT(26)

/* Pin-based VM-execution controls */
#define PIN_EXTERNAL_INTERRUPT_EXITING BIT(0)
#define PIN_NMI_EXITING BIT(3)
#define PIN_VIRTUAL_NMIS BIT(5)
#define PIN_PREEMPTION_TIMER BIT(6)

/* Primary processor-based VM-execution controls */
#define PRIMARY_HLT_EXITING BIT(7)
#define PRIMARY_MWAIT_EXITING BIT(10)
#define PRIMARY_RDPMC_EXITING BIT(11)
#define PRIMARY_RDTSC_EXITING BIT(12)
#define PRIMARY_CR3_LOAD_EXITING BIT(15)
#define PRIMARY_CR3_STORE_EXITING BIT(16)
#define PRIMARY_TERTIARY_CONTROLS BIT(17)
#define PRIMARY_NMI_WINDOW_EXITING BIT(22)
#define PRIMARY_MOV_DR_EXITING BIT(23)
#define PRIMARY_USE_IO_BITMAPS BIT(25)
#define PRIMARY_MONITOR_TRAP_FLAG BIT(27)
#define PRIMARY_USE_MSR_BITMAPS BIT(28)
#define PRIMARY_SECONDARY_CONTROLS BIT(31)

/* Secondary processor-based VM-execution controls */
#define SECONDARY_ENABLE_EPT BIT(1)
#define SECONDARY_ENABLE_RDTSCP BIT(3)
#define SECONDARY_ENABLE_VPID BIT(5)
#define SECONDARY_WBINVD_EXITING BIT(6)
#define SECONDARY_UNRESTRICTED_GUEST BIT(7)
#define SECONDARY_ENABLE_INVPCID BIT(12)
#define SECONDARY_ENCLS_EXITING BIT(15)
#define SECONDARY_CONCEAL_VMX_FROM_PT BIT(19)
#define SECONDARY_ENABLE_XSAVES BIT(20)
#define SECONDARY_PT_GUEST_PHYSICAL BIT(24)
#define SECONDARY_ENABLE_USER_WAIT BIT(26)

/* Tertiary processor-based VM-execution controls */
#define TERTIARY_PEBS_GUEST_PHYSICAL BIT(12)

/* Primary VM-exit controls */
#define EXIT_SAVE_DEBUG_CONTROLS BIT(2)
#define EXIT_HOST_ADDRESS_SPACE_SIZE BIT(9)
#define EXIT_LOAD_GLOBAL_CTRL BIT(12)
#define EXIT_SAVE_PAT BIT(18)
#define EXIT_LOAD_PAT BIT(19)
#define EXIT_SAVE_EFER BIT(20)
#define EXIT_LOAD_EFER BIT(21)
#define EXIT_CLEAR_BNDCFGS BIT(23)
#define EXIT_CONCEAL_FROM_PT BIT(24)
#define EXIT_CLEAR_RTIT_CTL BIT(25)
#define EXIT_CLEAR_LBR_CTL BIT(26)
#define EXIT_LOAD_CET BIT(28)
#define EXIT_SAVE_GLOBAL_CTRL BIT(30)

/* VM-entry controls */
#define ENTRY_LOAD_DEBUG_CONTROLS BIT(2)
#define ENTRY_IA32E_MODE_GUEST BIT(9)
#define ENTRY_LOAD_GLOBAL_CTRL BIT(13)
#define ENTRY_LOAD_PAT BIT(14)
#define ENTRY_LOAD_EFER BIT(15)
#define ENTRY_LOAD_BNDCFGS BIT(16)
#define ENTRY_CONCEAL_FROM_PT BIT(17)
#define ENTRY_LOAD_RTIT_CTL BIT(18)
#define ENTRY_LOAD_CET BIT(20)
#define ENTRY_LOAD_LBR_CTL BIT(21)

/* Guest interruptibility state */
#define BLOCKING_BY_STI BIT(0)
#define BLOCKING_BY_MOV_SS BIT(1)
#define BLOCKING_BY_NMI BIT(3)

/* Guest activity state */
#define ACTIVITY_ACTIVE 0
#define ACTIVITY_HLT 1
#define ACTIVITY_WAIT_FOR_SIPI 3

/* Pending debug exceptions */
#define PENDING_DEBUG_ENABLED BIT(12)
#define PENDING_DEBUG_BS BIT(14)

/* Interruption information: the layout is the same for VM entry, VM exit and IDT vectoring */
#define INTERRUPTION_VECTOR BITS(7, 0)
#define INTERRUPTION_TYPE_SHIFT 8
#define INTERRUPTION_TYPE BITS(10, 8)
#define INTERRUPTION_TYPE_NMI 2
#define INTERRUPTION_TYPE_HARDWARE_EXCEPTION 3
#define INTERRUPTION_TYPE_SOFTWARE 4 /* INT n; higher types come from instructions, too */
#define INTERRUPTION_ERROR_CODE BIT(11)
#define INTERRUPTION_VALID BIT(31)

/* Exit qualification of an EPT violation */
#define EPT_VIOLATION_WRITE BIT(1)
#define EPT_VIOLATION_FETCH BIT(2)
#define EPT_VIOLATION_LINEAR_VALID BIT(7)
#define EPT_VIOLATION_TRANSLATED BIT(8)    /* caused by the access itself, not by its page walk */
#define EPT_VIOLATION_ASYNCHRONOUS BIT(16) /* by output of PT or PEBS, not by the instruction */

/* Exit qualification of a control-register access */
#define CR_ACCESS_NUMBER BITS(3, 0)
#define CR_ACCESS_TYPE_SHIFT 4
#define CR_ACCESS_TYPE_MASK 3ULL
#define CR_ACCESS_MOV_TO 0
#define CR_ACCESS_REGISTER_SHIFT 8
#define CR_ACCESS_REGISTER_MASK 15ULL

/* Exit qualification of an I/O instruction */
#define IO_SIZE_MASK BITS(2, 0) /* size in bytes, minus 1 */
#define IO_IN BIT(3)
#define IO_STRING BIT(4)
#define IO_PORT_SHIFT 16

/* Segment access rights */
#define ACCESS_DPL_SHIFT 5
#define ACCESS_LONG BIT(13)
#define ACCESS_DB BIT(14)
#define ACCESS_GRANULARITY BIT(15)
#define ACCESS_UNUSABLE BIT(16)
/* Access rights and limits in their usual combinations. */
#define REAL_LIMIT 0xffff
#define RIGHTS_REAL 0x93 /* all six segments after an INIT: present, read/write, accessed */
#define RIGHTS_REAL_CODE 0x9b
#define RIGHTS_LDT 0x82
#define RIGHTS_REAL_TSS 0x8b /* a busy TSS: VM entries refuse any other */
#define FLAT_LIMIT 0xffffffffu
#define RIGHTS_CODE_64 (0x9b | ACCESS_LONG | ACCESS_GRANULARITY)
#define RIGHTS_DATA (0x93 | ACCESS_DB | ACCESS_GRANULARITY)

/* EPT entries (SDM Vol. 3, tables "Format of an EPT ... Entry") */
#define EPT_READ BIT(0)
#define EPT_WRITE BIT(1)
#define EPT_EXECUTE BIT(2)
#define EPT_RWX (EPT_READ | EPT_WRITE | EPT_EXECUTE) /* all clear: not present */
#define EPT_MEMORY_TYPE_SHIFT 3                      /* the memory type in a leaf */
#define EPT_PAGE BIT(7)                              /* marks a leaf above the lowest level */
#define EPT_ADDRESS BITS(51, 12)
#define EPT_ADDRESS_BITS 48 /* the address bits that a 4-level walk translates */

/* EPT pointer */
#define EPTP_MEMORY_WB 6ULL
#define EPTP_WALK_4 (3ULL << 3)

/* Basic exit reasons, X(name, number). */
#define VMX_EXIT_REASONS(X)                                                                        \
    X(EXCEPTION_OR_NMI, 0)                                                                         \
    X(EXTERNAL_INTERRUPT, 1)                                                                       \
    X(TRIPLE_FAULT, 2)                                                                             \
    X(INIT_SIGNAL, 3)                                                                              \
    X(SIPI, 4)                                                                                     \
    X(IO_SMI, 5)                                                                                   \
    X(OTHER_SMI, 6)                                                                                \
    X(INTERRUPT_WINDOW, 7)                                                                         \
    X(NMI_WINDOW, 8)                                                                               \
    X(TASK_SWITCH, 9)                                                                              \
    X(CPUID, 10)                                                                                   \
    X(GETSEC, 11)                                                                                  \
    X(HLT, 12)                                                                                     \
    X(INVD, 13)                                                                                    \
    X(INVLPG, 14)                                                                                  \
    X(RDPMC, 15)                                                                                   \
    X(RDTSC, 16)                                                                                   \
    X(RSM, 17)                                                                                     \
    X(VMCALL, 18)                                                                                  \
    X(VMCLEAR, 19)                                                                                 \
    X(VMLAUNCH, 20)                                                                                \
    X(VMPTRLD, 21)                                                                                 \
    X(VMPTRST, 22)                                                                                 \
    X(VMREAD, 23)                                                                                  \
    X(VMRESUME, 24)                                                                                \
    X(VMWRITE, 25)                                                                                 \
    X(VMXOFF, 26)                                                                                  \
    X(VMXON, 27)                                                                                   \
    X(CR_ACCESS, 28)                                                                               \
    X(MOV_DR, 29)                                                                                  \
    X(IO_INSTRUCTION, 30)                                                                          \
    X(RDMSR, 31)                                                                                   \
    X(WRMSR, 32)                                                                                   \
    X(ENTRY_FAILURE_GUEST_STATE, 33)                                                               \
    X(ENTRY_FAILURE_MSR_LOADING, 34)                                                               \
    X(MWAIT, 36)                                                                                   \
    X(MONITOR_TRAP_FLAG, 37)                                                                       \
    X(MONITOR, 39)                                                                                 \
    X(PAUSE, 40)                                                                                   \
    X(ENTRY_FAILURE_MACHINE_CHECK, 41)                                                             \
    X(TPR_BELOW_THRESHOLD, 43)                                                                     \
    X(APIC_ACCESS, 44)                                                                             \
    X(VIRTUALIZED_EOI, 45)                                                                         \
    X(GDTR_IDTR_ACCESS, 46)                                                                        \
    X(LDTR_TR_ACCESS, 47)                                                                          \
    X(EPT_VIOLATION, 48)                                                                           \
    X(EPT_MISCONFIGURATION, 49)                                                                    \
    X(INVEPT, 50)                                                                                  \
    X(RDTSCP, 51)                                                                                  \
    X(PREEMPTION_TIMER, 52)                                                                        \
    X(INVVPID, 53)                                                                                 \
    X(WBINVD, 54)                                                                                  \
    X(XSETBV, 55)                                                                                  \
    X(APIC_WRITE, 56)                                                                              \
    X(RDRAND, 57)                                                                                  \
    X(INVPCID, 58)                                                                                 \
    X(VMFUNC, 59)                                                                                  \
    X(ENCLS, 60)                                                                                   \
    X(RDSEED, 61)                                                                                  \
    X(PAGE_MODIFICATION_LOG_FULL, 62)                                                              \
    X(XSAVES, 63)                                                                                  \
    X(XRSTORS, 64)                                                                                 \
    X(PCONFIG, 65)                                                                                 \
    X(SPP_EVENT, 66)                                                                               \
    X(UMWAIT, 67)                                                                                  \
    X(TPAUSE, 68)                                                                                  \
    X(LOADIWKEY, 69)                                                                               \
    X(ENCLV, 70)                                                                                   \
    X(ENQCMD_PASID, 72)                                                                            \
    X(ENQCMDS_PASID, 73)                                                                           \
    X(BUS_LOCK, 74)                                                                                \
    X(NOTIFY_WINDOW, 75)                                                                           \
    X(SEAMCALL, 76)                                                                                \
    X(TDCALL, 77)                                                                                  \
    X(RDMSRLIST, 78)                                                                               \
    X(WRMSRLIST, 79)                                                                               \
    X(URDMSR, 80)                                                                                  \
    X(UWRMSR, 81)                                                                                  \
    X(RDMSR_IMMEDIATE, 84)                                                                         \
    X(WRMSRNS_IMMEDIATE, 85)

#define VMX_ENUMERATOR(name, number) EXIT_REASON_##name = (number),
enum exit_reason { VMX_EXIT_REASONS(VMX_ENUMERATOR) EXIT_REASON_COUNT };
#undef VMX_ENUMERATOR
#define EXIT_REASON_ENTRY_FAILURE BIT(31)
#define EXIT_REASON_BASIC 0xffffu
