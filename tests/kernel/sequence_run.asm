; SPDX-License-Identifier: BSD-2-Clause
;
; Events of the fuzzer of sequences: all 256 vectors lead to C, which notes the event and says
; whether the sequence goes on; else fuzz_run.asm ends it as an operation's.
; SDM Vol. 3, "Interrupt and Exception Handling in 64-bit Mode".

bits 64
default rel

%include "registers.inc"

extern fuzz_common, sequence_event

section .text

    STUBS sequence, 0, 256, sequence_common

sequence_common:
    PUSH_REGISTERS
    CALL_WITH_FRAME sequence_event
    test al, al
    jz .end
    END_EVENT
.end:
    POP_REGISTERS
    jmp fuzz_common

section .note.GNU-stack noalloc noexec nowrite progbits
