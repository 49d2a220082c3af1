; SPDX-License-Identifier: BSD-2-Clause
;
; Ends NMI blocking in root mode. SDM Vol. 3, "Handling Multiple NMIs".

bits 64
default rel

section .text

%include "offsets.inc"

; void nmi_unblock(void): executes an IRET to its own return address. In root mode, CS is always
; ROOT_CS and SS is always ROOT_DS.
global nmi_unblock
nmi_unblock:
    pop rax
    mov rcx, rsp
    push ROOT_DS
    push rcx
    pushfq
    push ROOT_CS
    push rax
    iretq

section .note.GNU-stack noalloc noexec nowrite progbits
