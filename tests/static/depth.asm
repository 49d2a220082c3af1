; SPDX-License-Identifier: BSD-2-Clause
;
; An image for tests of stack.py, whose depths are known: each way in names its own.

bits 64
default rel

section .text

; 8 for the call and 24 below it; what comes after a call that does not come back is nobody's.
global calls
calls:
    call pushes
    call stops
    sub rsp, 4096
pushes:
    push rax
    push rbx
    push rcx
    pop rcx
    add rsp, 16
    ret
stops:
    ud2

; 16 + 8 + 100 * 8: by a table, past a jump out of the function.
global indirect
indirect:
    push rax
    sub rsp, 8
    lea rax, [table]
    call [rax]
    add rsp, 16
    ret
first:
    jmp second.inside
second:
    push rax
.inside:
    sub rsp, 800
    lea rsp, [rsp + 800]
    ret

; 8 + 4096 + 8, by the deeper entry of a jump table.
global jumps
jumps:
    push rax
    lea rdx, [offsets]
    movsxd rax, dword [rdx + rdi * 4]
    add rax, rdx
    jmp rax
.shallow:
    pop rax
    ret
.deep:
    sub rsp, 4096
    push rax
    add rsp, 4104
    pop rax
    ret

; 5 calls of 8 + 16 where 5 may be active.
global recursive
recursive:
    call again
    ret
again:
    push rax
    push rbx
    call again
    pop rbx
    pop rax
    ret

global grows
grows:
    push rax
    loop grows
    ud2

global unbalanced
unbalanced:
    call leaves_one
    ret
leaves_one:
    push rax
    ret

; Nothing, and then what `indirect` has on another stack.
global switches
switches:
    mov rsp, rdi
    jmp indirect

global elsewhere
elsewhere:
    mov rsp, rax
    ret

section .rodata
offsets:
    dd jumps.shallow - offsets, jumps.deep - offsets

section .data
table:
    dq first
