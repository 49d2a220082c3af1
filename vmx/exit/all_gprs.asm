; SPDX-License-Identifier: BSD-2-Clause
;
; Handlers that look at any register of the guest's, or write it. The plain way in (entry.asm) leaves
; RBP and R12 to R15 where the guest has them, because calls keep them: here they go to struct cpu and
; come back.

bits 64
default rel

%include "offsets.inc"
%include "vmx/root/registers.inc"
%include "vmx/exit/entry.inc"

section .text

WITH_ALL_GPRS exit_triple_fault ; reports them
WITH_ALL_GPRS exit_unexpected
WITH_ALL_GPRS exit_task_switch  ; may end as a triple fault
WITH_ALL_GPRS exit_init         ; sets them
WITH_ALL_GPRS exit_sipi
WITH_ALL_GPRS exit_cr_access    ; one of them is the operand
WITH_ALL_GPRS exit_ept_violation

section .note.GNU-stack noalloc noexec nowrite progbits
