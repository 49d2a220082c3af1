; SPDX-License-Identifier: BSD-2-Clause
;
; The benchmark of the paper on memory traces (T. Schmidt, KIT, 2017, section 5.1): of u = t + r
; turns of two loops t write to one address and r read another one. The paper gives counts, no code:
; 5 instructions a turn, 5 around the loops. So a round is 5 + 5u instructions, whatever t is. For
; the test kernel and, as a program of Linux, for the machine itself (native.c).

bits 64
default rel

section .text

; A round's two loops, without the first where t is 0. RDI rounds, RSI t, RDX r, RCX the address
; that is written, R8 the one that is read. RAX: how many writes there were, which is their value.
; Neither loop crosses 32 bytes, which some processors' speed depends on.
%macro ROUNDS 1
        jmp     %%round
        align   32
%if %1
        times   12 nop
%endif
%%round:
        mov     r9, rsi                 ; 1
%if %1
%%write:
        mov     [rcx], rax
        inc     rax
        inc     r10
        dec     r9
        jnz     %%write
%endif
        mov     r9, rdx                 ; 2
%%read:
        mov     r11, [r8]
        inc     r11
        inc     r10
        dec     r9
        jnz     %%read
        inc     r10                     ; 3
        dec     rdi                     ; 4
        jnz     %%round                 ; 5
%endmacro

; uint64_t write_loop(uint64_t rounds, uint64_t t, uint64_t r, volatile uint64_t *written,
;                     volatile uint64_t *read): rounds and r are not 0. Gives rounds * t; the last
; write's value is one less.
global write_loop
align 64
write_loop:
        xor     eax, eax
        test    rsi, rsi
        jz      .none
        ROUNDS  1
        ret
.none:
        ROUNDS  0
        ret

; void fill_loop(uint64_t rounds, volatile uint64_t *page, uint64_t words): each round fills `words`
; words by one REP STOS, of the round's number.
global fill_loop
align 64
fill_loop:
        mov     rax, rdi
        mov     r8, rsi
.round:
        mov     rdi, r8
        mov     rcx, rdx
        rep stosq
        dec     rax
        jnz     .round
        ret

section .note.GNU-stack noalloc noexec nowrite progbits
