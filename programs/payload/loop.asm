; SPDX-License-Identifier: BSD-2-Clause
; loop.asm: a program whose number of user instructions is known exactly: 2 * LOOP_ROUNDS + 4.
; It touches no memory, so that no page fault repeats an instruction.

%define SYS_exit 60

        bits 64
        global _start
        section .text
_start:
        mov     ecx, LOOP_ROUNDS
.round:
        dec     ecx
        jnz     .round
        xor     edi, edi
        mov     eax, SYS_exit
        syscall
