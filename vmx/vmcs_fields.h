/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Encodings of the VMCS fields that PMUvisor uses, by width and in the SDM's order. SDM Vol. 3,
 * Appendix "Field Encoding in VMCS". Each list contains X(name, encoding) for every field. vmcs.h
 * makes the constants from the lists, and vmcs.c the names in error messages.
 */
#pragma once

#define VMCS_FIELDS_16(X)                                                                          \
    X(VPID, 0x0000)                                                                                \
    X(GUEST_ES_SELECTOR, 0x0800)                                                                   \
    X(GUEST_CS_SELECTOR, 0x0802)                                                                   \
    X(GUEST_SS_SELECTOR, 0x0804)                                                                   \
    X(GUEST_DS_SELECTOR, 0x0806)                                                                   \
    X(GUEST_FS_SELECTOR, 0x0808)                                                                   \
    X(GUEST_GS_SELECTOR, 0x080a)                                                                   \
    X(GUEST_LDTR_SELECTOR, 0x080c)                                                                 \
    X(GUEST_TR_SELECTOR, 0x080e)                                                                   \
    X(HOST_ES_SELECTOR, 0x0c00)                                                                    \
    X(HOST_CS_SELECTOR, 0x0c02)                                                                    \
    X(HOST_SS_SELECTOR, 0x0c04)                                                                    \
    X(HOST_DS_SELECTOR, 0x0c06)                                                                    \
    X(HOST_FS_SELECTOR, 0x0c08)                                                                    \
    X(HOST_GS_SELECTOR, 0x0c0a)                                                                    \
    X(HOST_TR_SELECTOR, 0x0c0c)

#define VMCS_FIELDS_64(X)                                                                          \
    X(IO_BITMAP_A, 0x2000)                                                                         \
    X(IO_BITMAP_B, 0x2002)                                                                         \
    X(MSR_BITMAPS, 0x2004)                                                                         \
    X(EXIT_MSR_STORE_ADDRESS, 0x2006)                                                              \
    X(EXIT_MSR_LOAD_ADDRESS, 0x2008)                                                               \
    X(ENTRY_MSR_LOAD_ADDRESS, 0x200a)                                                              \
    X(EPT_POINTER, 0x201a)                                                                         \
    X(XSS_EXITING_BITMAP, 0x202c)                                                                  \
    X(ENCLS_EXITING_BITMAP, 0x202e)                                                                \
    X(TERTIARY_CONTROLS, 0x2034)                                                                   \
    X(GUEST_PHYSICAL_ADDRESS, 0x2400)                                                              \
    X(VMCS_LINK_POINTER, 0x2800)                                                                   \
    X(GUEST_IA32_DEBUGCTL, 0x2802)                                                                 \
    X(GUEST_IA32_PAT, 0x2804)                                                                      \
    X(GUEST_IA32_EFER, 0x2806)                                                                     \
    X(GUEST_IA32_PERF_GLOBAL_CTRL, 0x2808)                                                         \
    X(GUEST_IA32_BNDCFGS, 0x2812)                                                                  \
    X(GUEST_IA32_RTIT_CTL, 0x2814)                                                                 \
    X(GUEST_IA32_LBR_CTL, 0x2816)                                                                  \
    X(HOST_IA32_PAT, 0x2c00)                                                                       \
    X(HOST_IA32_EFER, 0x2c02)                                                                      \
    X(HOST_IA32_PERF_GLOBAL_CTRL, 0x2c04)

#define VMCS_FIELDS_32(X)                                                                          \
    X(PIN_BASED_CONTROLS, 0x4000)                                                                  \
    X(PRIMARY_CONTROLS, 0x4002)                                                                    \
    X(EXCEPTION_BITMAP, 0x4004)                                                                    \
    X(PAGE_FAULT_ERROR_CODE_MASK, 0x4006)                                                          \
    X(PAGE_FAULT_ERROR_CODE_MATCH, 0x4008)                                                         \
    X(CR3_TARGET_COUNT, 0x400a)                                                                    \
    X(EXIT_CONTROLS, 0x400c)                                                                       \
    X(EXIT_MSR_STORE_COUNT, 0x400e)                                                                \
    X(EXIT_MSR_LOAD_COUNT, 0x4010)                                                                 \
    X(ENTRY_CONTROLS, 0x4012)                                                                      \
    X(ENTRY_MSR_LOAD_COUNT, 0x4014)                                                                \
    X(ENTRY_INTERRUPTION_INFORMATION, 0x4016)                                                      \
    X(ENTRY_EXCEPTION_ERROR_CODE, 0x4018)                                                          \
    X(ENTRY_INSTRUCTION_LENGTH, 0x401a)                                                            \
    X(SECONDARY_CONTROLS, 0x401e)                                                                  \
    X(INSTRUCTION_ERROR, 0x4400)                                                                   \
    X(EXIT_REASON, 0x4402)                                                                         \
    X(EXIT_INTERRUPTION_INFORMATION, 0x4404)                                                       \
    X(EXIT_INTERRUPTION_ERROR_CODE, 0x4406)                                                        \
    X(IDT_VECTORING_INFORMATION, 0x4408)                                                           \
    X(IDT_VECTORING_ERROR_CODE, 0x440a)                                                            \
    X(EXIT_INSTRUCTION_LENGTH, 0x440c)                                                             \
    X(GUEST_ES_LIMIT, 0x4800)                                                                      \
    X(GUEST_CS_LIMIT, 0x4802)                                                                      \
    X(GUEST_SS_LIMIT, 0x4804)                                                                      \
    X(GUEST_DS_LIMIT, 0x4806)                                                                      \
    X(GUEST_FS_LIMIT, 0x4808)                                                                      \
    X(GUEST_GS_LIMIT, 0x480a)                                                                      \
    X(GUEST_LDTR_LIMIT, 0x480c)                                                                    \
    X(GUEST_TR_LIMIT, 0x480e)                                                                      \
    X(GUEST_GDTR_LIMIT, 0x4810)                                                                    \
    X(GUEST_IDTR_LIMIT, 0x4812)                                                                    \
    X(GUEST_ES_ACCESS_RIGHTS, 0x4814)                                                              \
    X(GUEST_CS_ACCESS_RIGHTS, 0x4816)                                                              \
    X(GUEST_SS_ACCESS_RIGHTS, 0x4818)                                                              \
    X(GUEST_DS_ACCESS_RIGHTS, 0x481a)                                                              \
    X(GUEST_FS_ACCESS_RIGHTS, 0x481c)                                                              \
    X(GUEST_GS_ACCESS_RIGHTS, 0x481e)                                                              \
    X(GUEST_LDTR_ACCESS_RIGHTS, 0x4820)                                                            \
    X(GUEST_TR_ACCESS_RIGHTS, 0x4822)                                                              \
    X(GUEST_INTERRUPTIBILITY_STATE, 0x4824)                                                        \
    X(GUEST_ACTIVITY_STATE, 0x4826)                                                                \
    X(GUEST_IA32_SYSENTER_CS, 0x482a)                                                              \
    X(PREEMPTION_TIMER_VALUE, 0x482e)                                                              \
    X(HOST_IA32_SYSENTER_CS, 0x4c00)

#define VMCS_FIELDS_NATURAL(X)                                                                     \
    X(CR0_GUEST_HOST_MASK, 0x6000)                                                                 \
    X(CR4_GUEST_HOST_MASK, 0x6002)                                                                 \
    X(CR0_READ_SHADOW, 0x6004)                                                                     \
    X(CR4_READ_SHADOW, 0x6006)                                                                     \
    X(CR3_TARGET_VALUE_0, 0x6008)                                                                  \
    X(CR3_TARGET_VALUE_1, 0x600a)                                                                  \
    X(CR3_TARGET_VALUE_2, 0x600c)                                                                  \
    X(CR3_TARGET_VALUE_3, 0x600e)                                                                  \
    X(EXIT_QUALIFICATION, 0x6400)                                                                  \
    X(GUEST_LINEAR_ADDRESS, 0x640a)                                                                \
    X(GUEST_CR0, 0x6800)                                                                           \
    X(GUEST_CR3, 0x6802)                                                                           \
    X(GUEST_CR4, 0x6804)                                                                           \
    X(GUEST_ES_BASE, 0x6806)                                                                       \
    X(GUEST_CS_BASE, 0x6808)                                                                       \
    X(GUEST_SS_BASE, 0x680a)                                                                       \
    X(GUEST_DS_BASE, 0x680c)                                                                       \
    X(GUEST_FS_BASE, 0x680e)                                                                       \
    X(GUEST_GS_BASE, 0x6810)                                                                       \
    X(GUEST_LDTR_BASE, 0x6812)                                                                     \
    X(GUEST_TR_BASE, 0x6814)                                                                       \
    X(GUEST_GDTR_BASE, 0x6816)                                                                     \
    X(GUEST_IDTR_BASE, 0x6818)                                                                     \
    X(GUEST_DR7, 0x681a)                                                                           \
    X(GUEST_RSP, 0x681c)                                                                           \
    X(GUEST_RIP, 0x681e)                                                                           \
    X(GUEST_RFLAGS, 0x6820)                                                                        \
    X(GUEST_PENDING_DEBUG_EXCEPTIONS, 0x6822)                                                      \
    X(GUEST_IA32_SYSENTER_ESP, 0x6824)                                                             \
    X(GUEST_IA32_SYSENTER_EIP, 0x6826)                                                             \
    X(GUEST_IA32_S_CET, 0x6828)                                                                    \
    X(GUEST_SSP, 0x682a)                                                                           \
    X(GUEST_IA32_INTERRUPT_SSP_TABLE, 0x682c)                                                      \
    X(HOST_CR0, 0x6c00)                                                                            \
    X(HOST_CR3, 0x6c02)                                                                            \
    X(HOST_CR4, 0x6c04)                                                                            \
    X(HOST_FS_BASE, 0x6c06)                                                                        \
    X(HOST_GS_BASE, 0x6c08)                                                                        \
    X(HOST_TR_BASE, 0x6c0a)                                                                        \
    X(HOST_GDTR_BASE, 0x6c0c)                                                                      \
    X(HOST_IDTR_BASE, 0x6c0e)                                                                      \
    X(HOST_IA32_SYSENTER_ESP, 0x6c10)                                                              \
    X(HOST_IA32_SYSENTER_EIP, 0x6c12)                                                              \
    X(HOST_RSP, 0x6c14)                                                                            \
    X(HOST_RIP, 0x6c16)                                                                            \
    X(HOST_IA32_S_CET, 0x6c18)                                                                     \
    X(HOST_SSP, 0x6c1a)                                                                            \
    X(HOST_IA32_INTERRUPT_SSP_TABLE, 0x6c1c)
