; SPDX-License-Identifier: BSD-2-Clause
;
; Hardware task switches, which exist outside IA-32e mode alone: down to protected mode without
; paging, one try, and up again. It runs where it lies in physical memory, mapped to itself.
; SDM Vol. 3, "Switching Out of IA-32e Mode Operation", "Task Switching", "IDT Descriptors".

%define AT(label) rbx + (label) - task_code
%define AT_32(label) ebx + (label) - task_code
%define CODE_SELECTOR 0x10      ; these two as the kernel has them
%define DATA_SELECTOR 0x18
%define CODE_32 0x20
%define TASK 0x28
%define BEYOND 0xfff8           ; no such descriptor: #GP
%define VECTOR_DF 8
%define VECTOR_GP 13
%define INTERRUPT_GATE 0x8e
%define TASK_GATE 0x85
%define CR0_PG 0x80000000
%define TASK_BYTES 104
%define TASK_EBP 0x12345678     ; tests/e2e/test_kernel.py looks for it

section .data align=16
; uint64_t task_code(uint64_t physical, uint64_t by_event): the vector of the exception that came of
; a JMP to a task, or (by_event 1) of an event whose handler is a task. 2: the handler of what comes of
; that is a task, too, so it does not come back; EBP is TASK_EBP then.
global task_code
task_code:
bits 64
    push rbx
    push rbp
    mov rbx, rdi
    mov [AT(old_stack)], rsp
    sgdt [AT(old_gdt)]
    sidt [AT(old_idt)]
    lea eax, [AT(task)]
    mov [AT(gdt) + TASK + 2], ax
    shr eax, 16
    mov [AT(gdt) + TASK + 4], al
    mov [AT(gdt) + TASK + 7], ah
    lea eax, [AT(gdt)]
    mov [AT(gdt_pointer) + 2], rax
    lea eax, [AT(idt)]
    mov [AT(idt_pointer) + 2], rax
    lea eax, [AT(up)]
    mov [AT(far_up)], eax
    lea ecx, [AT(idt) + VECTOR_DF * 8]
    lea eax, [AT(double_fault)]
    call .interrupt_gate
    lea ecx, [AT(idt) + VECTOR_GP * 8]
    lea eax, [AT(general_protection)]
    test esi, esi
    jz .plain
    mov dword [rcx], TASK << 16
    mov dword [rcx + 4], TASK_GATE << 8
    cmp esi, 2
    jne .down
    lea ecx, [AT(idt) + VECTOR_DF * 8]
    mov dword [rcx], TASK << 16
    mov dword [rcx + 4], TASK_GATE << 8
    jmp .down
.plain:
    call .interrupt_gate
.down:
    lgdt [AT(gdt_pointer)]
    push CODE_32
    lea rax, [AT(protected)]
    push rax
    retfq
.interrupt_gate:
    mov [rcx], ax
    mov word [rcx + 2], CODE_32
    mov [rcx + 4], eax
    mov word [rcx + 4], INTERRUPT_GATE << 8
    ret

bits 32
protected:
    mov ax, DATA_SELECTOR
    mov ss, ax
    mov ds, ax
    mov es, ax
    lea esp, [AT_32(stack_top)]
    mov eax, cr0
    and eax, ~CR0_PG
    mov cr0, eax
    lidt [AT_32(idt_pointer)]
    test esi, esi
    jnz .event
    jmp far [AT_32(far_task)]
.event:
    mov ax, BEYOND
    mov ebp, TASK_EBP
    mov es, ax
    ud2
general_protection:
    mov ebp, VECTOR_GP
    jmp back
double_fault:
    mov ebp, VECTOR_DF
back:
    mov eax, cr0
    or eax, CR0_PG
    mov cr0, eax
    jmp far [AT_32(far_up)]

bits 64
up:
    lgdt [AT(old_gdt)]
    lidt [AT(old_idt)]
    mov rsp, [AT(old_stack)]
    mov eax, ebp
    pop rbp
    pop rbx
    ret

align 8
gdt:
    dq 0, 0
    dq 0x00af9b000000ffff       ; 64-bit code
    dq 0x00cf93000000ffff       ; flat data
    dq 0x00cf9b000000ffff       ; 32-bit code
    dq 0x0000890000000000 | (TASK_BYTES - 1) ; an available 32-bit TSS
gdt_end:
idt: times VECTOR_GP + 1 dq 0
idt_end:
gdt_pointer:
    dw gdt_end - gdt - 1
    dq 0
idt_pointer:
    dw idt_end - idt - 1
    dq 0
far_task:
    dd 0
    dw TASK
far_up:
    dd 0
    dw CODE_SELECTOR
old_gdt: times 5 dw 0
old_idt: times 5 dw 0
old_stack: dq 0
task: times TASK_BYTES db 0
    times 64 dd 0
stack_top:

section .note.GNU-stack noalloc noexec nowrite progbits
