/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pvh: starts a Linux kernel, its only module, where a hypervisor starts its own kernel by PVH's
 * 32-bit entry: the test kernel as the dom0 of Xen, which takes no bzImage without a compressed ELF
 * file in it. Xen, "x86/HVM direct boot ABI"; Linux, Documentation/arch/x86/boot.rst, "32-bit Boot
 * Protocol".
 */
#include <asm/bootparam.h>
#include <stdint.h>

#define START_MAGIC 0x336ec578u
#define LOADER_UNDEFINED 0xff
#define SECTOR 512u
#define SETUP_SECTORS 4u /* where the header says 0 */
#define E820_MAX 128u

struct start_info {
    uint32_t magic, version, flags, modules;
    uint64_t module_list, command_line, rsdp, memory_map;
    uint32_t memory_entries, reserved;
};

struct module {
    uint64_t address, size, command_line, reserved;
};

struct memory {
    uint64_t address, size;
    uint32_t type, reserved;
};

_Noreturn void pvh_main(const struct start_info *info);

static struct boot_params params;

/* Note 18 of Xen is XEN_ELFNOTE_PHYS32_ENTRY. EBX: the start information. Flat segments, no paging,
 * no stack. The GDT has what the protocol wants. */
__asm__(".pushsection .head, \"ax\"\n"
        ".globl pvh_entry\npvh_entry:\n"
        "cli\ncld\n"
        "mov $stack_end, %esp\n"
        "lgdt gdt_register\n"
        "ljmp $0x10, $1f\n"
        "1: mov $0x18, %eax\n"
        "mov %eax, %ds\nmov %eax, %es\nmov %eax, %ss\n"
        "push %ebx\n"
        "call pvh_main\n"
        ".popsection\n"
        ".pushsection .data\n.balign 8\n"
        "gdt: .quad 0, 0, 0x00cf9b000000ffff, 0x00cf93000000ffff\n"
        "gdt_register: .word gdt_register - gdt - 1\n.long gdt\n"
        ".popsection\n"
        ".pushsection .bss\n.skip 4096\nstack_end:\n.popsection\n"
        ".pushsection .note.Xen, \"a\", @note\n"
        ".long 4, 4, 18\n.asciz \"Xen\"\n.long pvh_entry\n"
        ".popsection");

static void copy(void *to, const void *from, uint32_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

static const void *at(uint64_t address) { return (const void *)(uintptr_t)address; }

static void fill(const struct start_info *info, const struct setup_header *header)
{
    const struct memory *memory = at(info->memory_map);

    params.hdr = *header;
    params.hdr.type_of_loader = LOADER_UNDEFINED;
    params.hdr.code32_start = (uint32_t)header->pref_address;
    params.hdr.cmd_line_ptr = (uint32_t)info->command_line;
    params.acpi_rsdp_addr = info->rsdp;
    /* Version 0, which Xen gives its dom0, has no memory map; the test kernel wants none. */
    for (uint32_t i = 0; info->version >= 1 && i < info->memory_entries && i < E820_MAX; i++)
        params.e820_table[params.e820_entries++] = (struct boot_e820_entry){
            memory[i].address, memory[i].size, memory[i].type};
}

void pvh_main(const struct start_info *info)
{
    const struct module *module = at(info->module_list);

    if (info->magic == START_MAGIC && info->modules == 1) {
        const uint8_t *image = at(module->address);
        const struct boot_params *of_image = (const void *)image;
        uint32_t sectors = of_image->hdr.setup_sects != 0 ? of_image->hdr.setup_sects
                                                          : SETUP_SECTORS;
        uint32_t setup = (sectors + 1u) * SECTOR;
        uint32_t to = (uint32_t)of_image->hdr.pref_address;

        fill(info, &of_image->hdr);
        copy((void *)to, image + setup, (uint32_t)module->size - setup);
        __asm__ volatile("xorl %%ebp, %%ebp\n\tjmp *%%eax"
                         :
                         : "a"(to), "S"(&params), "b"(0), "D"(0)
                         : "memory");
    }
    for (;;)
        __asm__ volatile("hlt");
}
