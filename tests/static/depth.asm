; SPDX-License-Identifier: BSD-2-Clause
;
; An image for tests of stack.py, whose depths are known: each way in names its own.

bits 64
default rel

section .text

; 8 for the call and 24 below it. The call at the end does not return.
global calls
calls:
    call pushes
    call stops
pushes:
    push rax
    push rbx
    push rcx
    pop rcx
    add rsp, 16
    ret
stops:
    ud2

; 16 + 8 + 100 * 8: by a table, through a jump out of the function.
global indirect
indirect:
    push rax
    sub rsp, 8
    lea rax, [table]
    call [rax]
    add rsp, 16
    ret
first:
    jmp second
second:
    sub rsp, 800
    lea rsp, [rsp + 800]
    ret

; 8 + 4096 + 8, on the deeper of two paths.
global large
large:
    push rax
    jz .deep
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

global elsewhere
elsewhere:
    mov rsp, rax
    ret

section .data
table:
    dq first
