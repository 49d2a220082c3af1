/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processor's registers, tables and CPUID bits by name. instructions.h has the instructions.
 */
#pragma once

/* By the include path, where tests/host may come first. */
#include <instructions.h>
#include <stdint.h>

#include "bits.h"

#define CR0_PE BIT(0)
#define CR0_EM BIT(2)
#define CR0_TS BIT(3)
#define CR0_ET BIT(4)
#define CR0_NE BIT(5)
#define CR0_WP BIT(16)
#define CR0_PG BIT(31)
/* The bits of 31:0 that a MOV to CR0 ignores. A MOV that sets one of the bits 63:32 faults. */
#define CR0_IGNORED (CR0_ET | BITS(15, 6) | BIT(17) | BITS(28, 19))

#define CR4_DE BIT(3)
#define CR4_PAE BIT(5)
#define CR4_MCE BIT(6)
#define CR4_LA57 BIT(12)
#define CR4_VMXE BIT(13)
#define CR4_SMXE BIT(14)
#define CR4_OSXSAVE BIT(18)
#define CR4_KL BIT(19)
#define CR4_SMAP BIT(21)
#define CR4_PKE BIT(22)
#define CR4_CET BIT(23)
#define CR4_UINTR BIT(25)
#define CR4_FRED BIT(32)

#define XCR0_APX BIT(19)

/* Register values after reset or INIT (SDM Vol. 3, "Processor State After Reset"). */
#define RESET_CS 0xf000
#define RESET_CS_BASE 0xffff0000
#define RESET_IP 0xfff0
#define DR6_RESET 0xffff0ff0
#define DR7_RESET 0x400
#define PAT_RESET 0x0007040600070406ULL /* SDM Vol. 3, "Page Attribute Table (PAT)", power-up */

#define RFLAGS_FIXED BIT(1)
#define RFLAGS_TF BIT(8)
#define RFLAGS_IF BIT(9)
#define RFLAGS_RF BIT(16)
#define RFLAGS_AC BIT(18)

/* Page-table entries (SDM Vol. 3, table "Format of a Page-Table Entry that Maps a 4-KByte Page") */
#define PTE_P BIT(0)   /* present */
#define PTE_RW BIT(1)  /* writes allowed */
#define PTE_PWT BIT(3) /* page-level write-through */
#define PTE_PCD BIT(4) /* page-level cache disable */
#define PTE_US BIT(2)  /* user-mode accesses allowed */
#define PTE_A BIT(5)   /* accessed */
#define PTE_D BIT(6)   /* dirty */
#define PTE_PS BIT(7)  /* page size: a leaf above the lowest level */
#define PTE_XD BIT(63) /* execute-disable; needs IA32_EFER.NXE */
#define PTE_ADDRESS BITS(51, 12)

/* Ordinary and extended page tables have the same shape. */
#define TABLE_LEVELS 4
#define TABLE_ENTRIES 512
#define TABLE_INDEX_BITS 9
#define PAGE_SHIFT 12

#define LOWER_HALF_END BIT(47) /* end of the canonical addresses that start at 0 */

#define SIZE_2M BIT(21)
#define SIZE_1G BIT(30)

/* Descriptors, and the table registers' contents (SDM Vol. 3, "Segment Descriptors"). */
#define GDT_CODE_64 0x00af9b000000ffffULL
#define GDT_DATA 0x00cf93000000ffffULL
#define TSS_AVAILABLE 0x89ULL  /* in bits 47:40 */
#define GATE_INTERRUPT 0x8eULL /* present, DPL 0, 64-bit interrupt gate: IF off */

struct tss {
    uint32_t reserved_0;
    uint64_t rsp[3]; /* RSP0 to RSP2: the stacks of privilege levels 0 to 2 */
    uint64_t reserved_1;
    uint64_t ist[7]; /* IST1 to IST7: the stacks that an IDT gate can name */
    uint64_t reserved_2;
    uint16_t reserved_3;
    uint16_t io_map_base; /* offset of the I/O permission bitmap */
} __attribute__((packed));
_Static_assert(sizeof(struct tss) == 104, "SDM: the 64-bit TSS has 104 bytes");

struct table_register {
    uint16_t limit; /* size in bytes, minus 1 */
    uint64_t base;  /* linear address */
} __attribute__((packed));

#define VECTOR_DE 0
#define VECTOR_DB 1
#define VECTOR_NMI 2
#define VECTOR_UD 6
#define VECTOR_DF 8
#define VECTOR_TS 10
#define VECTOR_NP 11
#define VECTOR_SS 12
#define VECTOR_GP 13
#define VECTOR_PF 14
#define VECTOR_MC 18
#define VECTOR_VE 20
#define VECTOR_CP 21

/* CPUID leaves and their bits: CPUID_LEAF_REGISTER_NAME (SDM Vol. 2, "CPUID"). */
#define CPUID_LEAF_EXTENDED 7
#define CPUID_LEAF_PMU 0xa
#define CPUID_LEAF_XSAVE 0xd
#define CPUID_LEAF_PT 0x14
#define CPUID_14_ECX_SINGLE_RANGE BIT(2)
#define CPUID_14_ECX_OUTPUTS BITS(3, 2) /* single range, and trace transport subsystem */
#define CPUID_LEAF_TSC 0x15
#define CPUID_LEAF_FREQUENCY 0x16
#define CPUID_LEAF_PMU_EXTENDED 0x23
#define CPUID_LEAF_HYPERVISOR 0x40000000u /* EAX: the last hypervisor leaf */
#define CPUID_LEAF_HYPERVISOR_TSC 0x40000010u
#define CPUID_LEAF_EXTENDED_HIGHEST 0x80000000u
#define CPUID_LEAF_EXTENDED_1 0x80000001u
#define CPUID_LEAF_ADDRESS_SIZES 0x80000008u
#define CPUID_1_ECX_VMX BIT(5)
#define CPUID_1_ECX_PDCM BIT(15)
#define CPUID_1_ECX_XSAVE BIT(26)
#define CPUID_1_ECX_OSXSAVE BIT(27)
#define CPUID_1_ECX_HYPERVISOR BIT(31)
#define SIGNATURE_STEPPING(signature) ((signature) & 0xf) /* CPUID.1:EAX */
#define SIGNATURE_FAMILY(signature) ((signature) >> 8 & 0xf)
#define SIGNATURE_MODEL(signature) (((signature) >> 4 & 0xf) | ((signature) >> 12 & 0xf0))
#define CPUID_1_EDX_DS BIT(21) /* debug store: BTS and PEBS */
#define CPUID_1_EDX_MTRR BIT(12)
#define CPUID_7_1_EAX_PMU_EXTENDED BIT(8) /* leaf 23H exists */
#define CPUID_7_EBX_PT BIT(25)
#define CPUID_7_EBX_RTM BIT(11)
#define CPUID_7_EDX_ARCH_LBR BIT(19)
#define CPUID_7_EDX_MD_CLEAR BIT(10)
#define CPUID_7_EDX_SPEC_CTRL BIT(26)
#define CPUID_7_EDX_L1D_FLUSH BIT(28)
#define CPUID_7_EDX_ARCH_CAPABILITIES BIT(29)
#define CPUID_7_ECX_OSPKE BIT(4)
#define CPUID_7_ECX_TME BIT(13)
#define CPUID_EXTENDED_1_EDX_NX BIT(20)

/* Returns the feature flags of leaf 7, subleaf 0. All are 0 if the processor has no leaf 7, or if
 * firmware limits CPUID to fewer leaves (SDM Vol. 4, IA32_MISC_ENABLE, "Limit CPUID Maxval"). In
 * both cases, CPUID would answer with another leaf's bits. */
static inline struct cpuid_result cpuid_extended_features(void)
{
    if (cpuid(0, 0).eax < CPUID_LEAF_EXTENDED)
        return (struct cpuid_result){0, 0, 0, 0};
    return cpuid(CPUID_LEAF_EXTENDED, 0);
}

/* Waits about `us` microseconds by reading the port of the POST code `us` times. Each read takes
 * about 1 us on hardware. */
#define PORT_DELAY 0x80
static inline void delay_us(unsigned us)
{
    while (us-- > 0)
        (void)inb(PORT_DELAY);
}

static inline void cpu_relax(void) { __asm__ volatile("pause" : : : "memory"); }
