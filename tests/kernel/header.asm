; SPDX-License-Identifier: BSD-2-Clause
;
; The setup header by which boot loaders know the test kernel as a Linux kernel. It is in assembly
; because the linker fills in syssize: C cannot put a symbol's value into 32 bits.
; (Linux, Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".)

%include "layout.inc"
%use ifunc

extern kernel_paragraphs        ; the linker script computes it

%define PROTOCOL 0x020f
%define BOOT_FLAG 0xaa55
%define SHORT_JUMP 0xeb
%define LOADED_HIGH 1
%define LOADED_AT 0x100000
%define COMMAND_LINE_MAX 2047
%define INITRD_MAX 0x7fffffff
%define HEAP_END (0x10000 - SECTOR)
%define XLF_KERNEL_64 1

section .setup_header
header:
    db SETUP_SECTORS            ; setup_sects
    dw 0                        ; root_flags
    dd kernel_paragraphs        ; syssize
    dw 0, 0, 0                  ; ram_size, vid_mode, root_dev
    dw BOOT_FLAG
    db SHORT_JUMP, header.end - .jumped
.jumped:
    db "HdrS"
    dw PROTOCOL
    dd 0                        ; realmode_swtch
    dw 0, 0                     ; start_sys_seg, kernel_version
    db 0                        ; type_of_loader
    db LOADED_HIGH              ; loadflags
    dw 0                        ; setup_move_size
    dd LOADED_AT                ; code32_start
    dd 0, 0, 0                  ; ramdisk_image, ramdisk_size, bootsect_kludge
    dw HEAP_END                 ; heap_end_ptr
    db 0, 0                     ; ext_loader_ver, ext_loader_type
    dd 0                        ; cmd_line_ptr
    dd INITRD_MAX               ; initrd_addr_max
    dd ALIGNMENT                ; kernel_alignment
    db 1                        ; relocatable_kernel
    db ilog2e(ALIGNMENT)        ; min_alignment
    dw XLF_KERNEL_64            ; xloadflags
    dd COMMAND_LINE_MAX         ; cmdline_size
    dd 0                        ; hardware_subarch
    dq 0                        ; hardware_subarch_data
    dd 0, 0                     ; payload_offset, payload_length
    dq 0                        ; setup_data
    dq PREFERRED                ; pref_address
    dd INIT_SIZE                ; init_size
    dd 0, 0                     ; handover_offset, kernel_info_offset
.end:

section .note.GNU-stack noalloc noexec nowrite progbits
