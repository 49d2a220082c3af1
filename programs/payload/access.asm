; SPDX-License-Identifier: BSD-2-Clause
; access.asm: a program whose numbers of loads, stores and branches in user mode are known exactly,
; and which misses the last-level cache once in each of its last rounds. A page fault repeats an
; instruction that has not retired, so the counts stay what they are. perf.c has them.

%define SYS_exit 60

        bits 64
        global _start
        section .bss
        alignb 4096
line:   resb 4096
        section .text
_start:
        lea     rsi, [rel line]
        mov     ecx, ACCESS_ROUNDS
.round:                                 ; three loads and three stores
        mov     rax, [rsi]
        mov     [rsi + 8], rax
        add     [rsi + 16], rax
        push    rax
        pop     rax
        dec     ecx
        jnz     .round
        mov     ecx, ACCESS_FLUSHES
.flush:                                 ; one load, of a line that is in no cache
        clflush [rsi]
        mov     rax, [rsi]
        dec     ecx
        jnz     .flush
        xor     edi, edi
        mov     eax, SYS_exit
        syscall
