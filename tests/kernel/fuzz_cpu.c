/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The fuzzer's world: descriptor tables with segments of every kind, handlers for all vectors, and
 * a window of pages in which operations run. Natively and under PMUvisor everything is at the same
 * linear addresses. SDM Vol. 3, "Segment Descriptors", "64-Bit TSS", "Interrupt Stack Table",
 * "4-Level Paging and 5-Level Paging".
 */
#include "fuzz.h"

#include <string.h>

#include "console/log.h"
#include "kernel.h"
#include "layout.h"

#define STACK_BYTES 4096

#define CODE_32 0x00cf9b000000ffffULL
#define CODE_16 0x00009b000000ffffULL
#define DATA_READ_ONLY 0x00cf91000000ffffULL
#define CODE_CONFORMING 0x00af9f000000ffffULL
#define DESCRIPTOR_PRESENT BIT(47)
#define DPL(level) ((uint64_t)(level) << 45)
#define TYPE_TSS 0x89ULL
#define TYPE_LDT 0x82ULL
#define TYPE_SHIFT 40
#define SHORT_TSS_LIMIT 0x20   /* the stacks of IST lie behind it */
#define CALL_GATE_TYPE 0xecULL /* present, DPL 3 */

#define GATE_USER 0x60 /* DPL 3 */
#define USER_VECTORS_FIRST 0x40
#define USER_VECTORS_LAST 0x5f

#define OWN_TABLE ((4 + 4) * PAGE_SIZE)
#define GIB_SHIFT 30

#define STAR_SYSCALL_SHIFT 32
#define STAR_SYSRET_SHIFT 48
#define LEAF_1_ECX_XSAVE BIT(26)
#define LEAF_1_EBX_APIC_ID 0xff000000u /* where the ICR's high half has it, too */
#define MSR_CSTAR 0xc0000083

#define OPCODE_INT 0xcd

struct table_register fuzz_own_gdt, fuzz_own_idt;

static uint64_t gdt[FUZZ_GDT_BYTES / 8], gdt_before[FUZZ_GDT_BYTES / 8];
static struct gate idt[VECTORS], spoilt_idt[VECTORS];
static struct tss tss;
static uint8_t stacks[4][STACK_BYTES] __attribute__((aligned(16)));
uint8_t fuzz_code_page[PAGE_SIZE] __attribute__((aligned(4096)));
static uint64_t window_table[TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint64_t target_table[TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint8_t hidden_stand_in[PAGE_SIZE] __attribute__((aligned(4096)));
uint8_t fuzz_data[DATA_BYTES] __attribute__((aligned(4096)));
uint8_t fuzz_plain[PAGE_SIZE] __attribute__((aligned(4096)));
static uint64_t hidden_first, hidden_pages;

uint64_t fuzz_physical(const void *of_ours)
{
    const uint64_t *own = (const uint64_t *)(page_tables + OWN_TABLE);
    uint64_t offset = (uintptr_t)of_ours - KERNEL_VIRTUAL;

    return (own[0] & PTE_ADDRESS) + offset;
}

static void flush(uint64_t linear) { invlpg((const void *)(uintptr_t)linear); }

uint64_t *fuzz_directory(void) { return (uint64_t *)(page_tables + 2 * PAGE_SIZE); }

void fuzz_map(uint64_t entry)
{
    window_table[(WINDOW_TARGET - WINDOW) / PAGE_SIZE] = entry;
    flush(WINDOW_TARGET);
}

void fuzz_map_table(uint64_t directory_entry, uint64_t entry)
{
    target_table[0] = entry;
    fuzz_directory()[WINDOW_TARGET_TABLE / SIZE_2M] = directory_entry & PTE_ADDRESS
                                                          ? directory_entry
                                                          : directory_entry |
                                                                fuzz_physical(target_table);
    flush(WINDOW_TARGET_TABLE);
}

static void map_window(uint32_t linear, const uint8_t *from, unsigned pages, uint64_t flags)
{
    for (unsigned i = 0; i < pages; i++)
        window_table[(linear - WINDOW) / PAGE_SIZE + i] = fuzz_physical(from + i * PAGE_SIZE) |
                                                          flags | PTE_P;
}

static void setup_window(void)
{
    uint64_t *pml4 = (uint64_t *)page_tables, *pdpt = (uint64_t *)(page_tables + PAGE_SIZE);

    pml4[0] |= PTE_US;
    pdpt[WINDOW >> GIB_SHIFT] |= PTE_US;
    map_window(WINDOW_CODE, fuzz_code_page, 1, PTE_RW);
    map_window(WINDOW_CODE_USER, fuzz_code_page, 1, PTE_RW | PTE_US);
    map_window(WINDOW_DATA, fuzz_data, DATA_BYTES / PAGE_SIZE, PTE_RW);
    map_window(WINDOW_DATA_USER, fuzz_data, DATA_BYTES / PAGE_SIZE, PTE_RW | PTE_US);
    map_window(WINDOW_READ_ONLY, fuzz_plain, 1, 0);
    map_window(WINDOW_HIDDEN, hidden_stand_in, 1, PTE_RW | PTE_US);
    if (hidden_pages != 0)
        window_table[(WINDOW_HIDDEN - WINDOW) / PAGE_SIZE] = hidden_first | PTE_P | PTE_RW | PTE_US;
    fuzz_directory()[WINDOW / SIZE_2M] = fuzz_physical(window_table) | PTE_P | PTE_RW | PTE_US;
    for (unsigned i = 0; i < PAGE_SIZE; i += 2) {
        fuzz_code_page[i] = fuzz_plain[i] = OPCODE_INT;
        fuzz_code_page[i + 1] = fuzz_plain[i + 1] = FUZZ_DONE;
    }
}

/* Two words: a system descriptor of IA-32e mode. */
static void system_descriptor(unsigned selector, uint64_t base, uint64_t limit, uint64_t type)
{
    gdt[selector / 8] = limit | (base & 0xffffff) << 16 | type << TYPE_SHIFT |
                        (base >> 24 & 0xff) << 56;
    gdt[selector / 8 + 1] = base >> 32;
}

static void setup_gdt(void)
{
    for (unsigned level = 0; level < 4; level++) {
        static const uint8_t code[] = {FUZZ_CODE_0, FUZZ_CODE_1, FUZZ_CODE_2, FUZZ_CODE_3};
        static const uint8_t data[] = {FUZZ_DATA_0, FUZZ_DATA_1, FUZZ_DATA_2, FUZZ_DATA_3};
        gdt[code[level] / 8] = GDT_CODE_64 | DPL(level);
        gdt[data[level] / 8] = GDT_DATA | DPL(level);
    }
    gdt[FUZZ_CODE32_0 / 8] = CODE_32;
    gdt[FUZZ_CODE32_3 / 8] = CODE_32 | DPL(3);
    gdt[FUZZ_CODE16_0 / 8] = CODE_16 | (uint64_t)(WINDOW >> 24) << 56;
    gdt[FUZZ_CODE16_3 / 8] = gdt[FUZZ_CODE16_0 / 8] | DPL(3);
    gdt[FUZZ_CODE_CONFORMING / 8] = CODE_CONFORMING;
    gdt[FUZZ_CODE_ABSENT / 8] = GDT_CODE_64 & ~DESCRIPTOR_PRESENT;
    gdt[FUZZ_DATA_ABSENT / 8] = (GDT_DATA | DPL(3)) & ~DESCRIPTOR_PRESENT;
    gdt[FUZZ_CODE_L_AND_D / 8] = GDT_CODE_64 | DESCRIPTOR_D;
    gdt[FUZZ_READ_ONLY / 8] = DATA_READ_ONLY | DPL(3);
    uint64_t target = WINDOW_CODE + LANDING;
    gdt[FUZZ_CALL_GATE / 8] = (target & 0xffff) | (uint64_t)FUZZ_CODE_0 << 16 |
                              CALL_GATE_TYPE << TYPE_SHIFT | (target >> 16 & 0xffff) << 48;
    gdt[FUZZ_CALL_GATE / 8 + 1] = target >> 32;
    system_descriptor(FUZZ_TSS, (uintptr_t)&tss, sizeof(tss) - 1, TYPE_TSS);
    system_descriptor(FUZZ_SHORT_TSS, (uintptr_t)&tss, SHORT_TSS_LIMIT, TYPE_TSS);
    system_descriptor(FUZZ_LDT, (uintptr_t)gdt, FUZZ_CODE_2 - 1, TYPE_LDT);
    memcpy(gdt_before, gdt, sizeof(gdt));
    fuzz_own_gdt = (struct table_register){sizeof(gdt) - 1, (uintptr_t)gdt};
    __asm__ volatile("lgdt %0" : : "m"(fuzz_own_gdt));
}

void fuzz_restore_descriptors(void)
{
    memcpy(gdt, gdt_before, sizeof(gdt));
    __asm__ volatile("ltr %0" : : "r"((uint16_t)FUZZ_TSS) : "memory");
}

static uint8_t stack_of(unsigned vector)
{
    switch (vector) {
    case VECTOR_NMI:
        return IST_OF_NMI;
    case VECTOR_DB:
        return IST_OF_DB;
    case VECTOR_DF:
        return IST_OF_DF;
    default:
        return IST_ORDINARY;
    }
}

static void setup_idt(void)
{
    for (unsigned v = 0; v < VECTORS; v++) {
        bool user = v == VECTOR_BP || v == VECTOR_BP + 1 ||
                    (v >= USER_VECTORS_FIRST && v <= USER_VECTORS_LAST);
        idt[v] = cpu_gate_to(fuzz_stubs + v * STUB_BYTES, stack_of(v));
        idt[v].type |= user ? GATE_USER : 0;
    }
    memcpy(spoilt_idt, idt, sizeof(idt));
    for (unsigned i = 0; i < LENGTH_OF(stacks); i++)
        tss.ist[i] = (uintptr_t)stacks[i] + STACK_BYTES;
    for (unsigned level = 0; level < 3; level++)
        tss.rsp[level] = WINDOW_DATA + DATA_MIDDLE;
    tss.io_map_base = sizeof(tss);
    fuzz_own_idt = (struct table_register){sizeof(idt) - 1, (uintptr_t)idt};
    __asm__ volatile("lidt %0" : : "m"(fuzz_own_idt));
}

struct gate *fuzz_spoil_idt(unsigned vector, uint16_t limit)
{
    struct table_register r = {limit, (uintptr_t)spoilt_idt};

    __asm__ volatile("lidt %0" : : "m"(r));
    return &spoilt_idt[vector];
}

void fuzz_spoil_ist(unsigned number, uint64_t top) { tss.ist[number - 1] = top; }

void fuzz_mend(unsigned vector)
{
    spoilt_idt[vector] = idt[vector];
    spoilt_idt[VECTOR_DF] = idt[VECTOR_DF];
}

/* The hypervisor's memory, from its last page down to where reads work again. */
static void find_hidden(void)
{
    uint64_t page = hidden_address(), value;

    hidden_pages = 0;
    if (page == 0)
        return;
    do {
        hidden_first = page;
        hidden_pages++;
        page -= PAGE_SIZE;
        /* Its first page, the reset doorbell, is not to be written. */
    } while (page / PAGE_SIZE != machine_reset_address() / PAGE_SIZE && !read_try(page, &value));
}

uint64_t fuzz_hidden_page(uint64_t random)
{
    if (hidden_pages == 0)
        return fuzz_physical(fuzz_plain);
    return hidden_first + random % hidden_pages * PAGE_SIZE;
}

void fuzz_setup(void)
{
    find_hidden();
    tap_note("fuzz: %lu pages are hidden from this guest", hidden_pages);
    setup_window();
    setup_gdt();
    setup_idt();
    fuzz_restore_descriptors();
    /* The emulator takes this for a kernel's start: MSRs that do not exist fault from now on. */
    wrmsr(IA32_LSTAR, WINDOW_CODE + LANDING);
    wrmsr(MSR_CSTAR, WINDOW_CODE + LANDING);
    wrmsr(IA32_STAR,
          (uint64_t)FUZZ_CODE_2 << STAR_SYSRET_SHIFT | (uint64_t)FUZZ_CODE_0 << STAR_SYSCALL_SHIFT);
    wrmsr(IA32_FMASK, 0);
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE | EFER_NXE);
    /* Not what the loader left: that differs between the two runs. */
    write_cr4(CR4_DE | CR4_PAE | CR4_MCE | CR4_OSFXSR | CR4_OSXMMEXCPT |
              (cpuid(1, 0).ecx & LEAF_1_ECX_XSAVE ? CR4_OSXSAVE : 0));
    write_cr0(CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG);
    apic_set_icr_high(cpuid(1, 0).ebx & LEAF_1_EBX_APIC_ID);
    fuzz_base.cr0 = read_cr0();
    fuzz_base.cr3 = read_cr3();
    fuzz_base.cr4 = read_cr4();
    __asm__ volatile("push %0\n\tpopfq" : : "i"(RFLAGS_FIXED) : "memory", "cc");
    __asm__ volatile("mov %0, %%ds\n\tmov %0, %%es" : : "r"(FUZZ_DATA_3 | 3));
}

/* The test kernel's own tables again. */
void fuzz_end(void)
{
    cpu_setup();
    fuzz_directory()[WINDOW_TARGET_TABLE / SIZE_2M] = 0;
}

/* ---- one execution ---- */

uint64_t fuzz_data_address(const struct fuzz_op *op)
{
    return op->cpl == 3 ? WINDOW_DATA_USER : WINDOW_DATA;
}

void fuzz_code(struct fuzz_op *op, unsigned bytes, const void *code)
{
    /* Room for the INT at the end. */
    if (op->length + bytes > sizeof(op->code) - 2)
        tap_bail_out("an operation of the fuzzer is too long");
    memcpy(op->code + op->length, code, bytes);
    op->length += bytes;
}

void fuzz_begin(struct fuzz_op *op)
{
    static const uint8_t code[] = {FUZZ_CODE_0, FUZZ_CODE_1, FUZZ_CODE_2, FUZZ_CODE_3};
    static const uint8_t data[] = {FUZZ_DATA_0, FUZZ_DATA_1, FUZZ_DATA_2, FUZZ_DATA_3};
    uint64_t flags = RFLAGS_CF | RFLAGS_PF | RFLAGS_AF | RFLAGS_ZF | RFLAGS_SF | RFLAGS_OF |
                     RFLAGS_AC;
    uint64_t pattern = fuzz_random(op);

    op->length = 0;
    for (unsigned i = 0; i < 16; i++) {
        pattern = pattern * 3 + i;
        fuzz_in.gpr[i] = op->code_32 ? (uint32_t)pattern : pattern;
    }
    fuzz_in.gpr[RDI] = fuzz_in.gpr[RSI] = fuzz_data_address(op);
    fuzz_in.rip = op->cpl == 3 ? WINDOW_CODE_USER : WINDOW_CODE;
    fuzz_in.cs = (op->code_32 ? (op->cpl == 3 ? FUZZ_CODE32_3 : FUZZ_CODE32_0) : code[op->cpl]) |
                 op->cpl;
    fuzz_in.ss = data[op->cpl] | op->cpl;
    fuzz_in.rsp = fuzz_data_address(op) + DATA_MIDDLE;
    fuzz_in.rflags = RFLAGS_FIXED | (pattern & flags);
}

bool fuzz_go(struct fuzz_op *op)
{
    memcpy(fuzz_code_page, op->code, op->length);
    fuzz_code_page[op->length] = OPCODE_INT;
    fuzz_code_page[op->length + 1] = FUZZ_DONE;
    if (fuzz_shown)
        fuzz_show(op);
    fuzz_execute();
    return fuzz_out.vector == FUZZ_DONE;
}

/* Outside 64-bit mode the upper halves are undefined after a while. */
static uint64_t mix_others(const struct fuzz_op *op, const struct fuzz_state *s)
{
    uint64_t mixed = (uint32_t)s->rsp;

    for (unsigned i = RBP; i < (op->code_32 ? R8 : 16); i++)
        mixed = mixed * 3 + (op->code_32 ? (uint32_t)s->gpr[i] : s->gpr[i]);
    return mixed;
}

void fuzz_keep(struct fuzz_op *op, bool outputs)
{
    op->others_before = mix_others(op, &fuzz_in);
    op->others = mix_others(op, &fuzz_out);
    op->start = fuzz_in.rip;
    op->flags = fuzz_in.rflags;
    op->vector = fuzz_out.vector;
    op->error = fuzz_out.error;
    op->rip = fuzz_out.rip;
    op->rflags = fuzz_out.rflags;
    op->cr2 = fuzz_out.vector == VECTOR_PF ? fuzz_out.cr2 : 0;
    for (unsigned i = 0; outputs && i < FUZZ_VALUES; i++)
        op->value[i] = op->code_32 ? (uint32_t)fuzz_out.gpr[i] : fuzz_out.gpr[i];
}
