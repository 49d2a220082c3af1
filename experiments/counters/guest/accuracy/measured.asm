; SPDX-License-Identifier: BSD-2-Clause
; measured.asm: the call that is counted, and a loop, both of known length: how many instructions
; and branches are retired between the two system calls is said in accuracy.h. The counters count
; user mode only: from the first instruction after SYSCALL to the next SYSCALL.

%define SYS_ioctl 16
%define PERF_EVENT_IOC_ENABLE 0x2400
%define PERF_EVENT_IOC_DISABLE 0x2401
%define PERF_IOC_FLAG_GROUP 1

        struc measured_call
.fd:     resd 1
.region: resd 1
.run:    resq 1
.data:   resq 1
.result: resq 1
        endstruc

%define REGION_BEGIN 1

        bits 64
        default rel
        global measured
        global loop_run
        global loop_rounds
        global fp_rounds
        section .text

; void measured(struct measured *m)
measured:
        push    rbx
        mov     rbx, rdi
        mov     eax, SYS_ioctl
        mov     edi, [rbx + measured_call.fd]
        mov     esi, PERF_EVENT_IOC_ENABLE
        mov     edx, PERF_IOC_FLAG_GROUP
        syscall
        ; Counted from here: 14 instructions, 2 of them branches, and what run() retires.
        mov     eax, [rbx + measured_call.region]
        mov     ecx, REGION_BEGIN
        xchg    bx, bx
        mov     rdi, [rbx + measured_call.data]
        call    [rbx + measured_call.run]
        mov     [rbx + measured_call.result], rax
        mov     eax, [rbx + measured_call.region]
        xor     ecx, ecx
        xchg    bx, bx
        mov     eax, SYS_ioctl
        mov     edi, [rbx + measured_call.fd]
        mov     esi, PERF_EVENT_IOC_DISABLE
        mov     edx, PERF_IOC_FLAG_GROUP
        syscall
        ; Counted up to here.
        pop     rbx
        ret

; uint64_t loop_run(uint64_t *rounds): one instruction more than loop_rounds.
        align   16
loop_run:
        mov     rdi, [rdi]
; uint64_t loop_rounds(uint64_t rounds): 2 instructions and 4 for each round; a branch for each
; round and one more.
loop_rounds:
        xor     eax, eax
.round:
        lea     rax, [rax + rax * 4 + 1]
        xor     rax, rdi
        dec     rdi
        jnz     .round
        ret

; void fp_rounds(uint64_t rounds): an addition of doubles in each round, and four instructions.
        align   16
fp_rounds:
        xorps   xmm0, xmm0
.round:
        addsd   xmm0, xmm0
        lea     rdi, [rdi - 1]
        test    rdi, rdi
        jnz     .round
        ret

        section .note.GNU-stack noalloc noexec nowrite progbits
