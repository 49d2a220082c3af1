/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A second guest on the same processor, in a VMCS of its own: it writes one MSR, reads it and is
 * gone. The full PMU switch around it is what keeps the first guest's value. Thesis, section 4.4.1.
 */
#include "tests/hooks/other_guest.h"

#include "hypercall.h"
#include "mm/mm.h"
#include "msr.h"
#include "pmu/pmu.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/vmcs.h"
#include "x86.h"

#define CODE_ADDRESS 0x1000 /* of the second guest's physical memory, which is this one page */
#define EPT_WB (6ULL << 3)
#define RIGHTS_CODE_32 0xc09b
#define ENCODING_READ_ONLY(encoding) (((encoding) >> 10 & 3) == 1)
#define WITHOUT_SWITCH 1 /* RDX: leave the PMU switch out, to see what it is for */

bool other_guest_run(uint32_t registers[3]);
extern const uint8_t other_guest_code[], other_guest_code_end[];

static void load_vmcs(const void *vmcs)
{
    uint64_t address = (uint64_t)vmcs;

    __asm__ volatile("vmptrld %0" : : "m"(address) : "cc", "memory");
}

static bool read_field(uint32_t encoding, uint64_t *value)
{
    bool failed;

    __asm__ volatile("vmread %2, %0" : "=r"(*value), "=@ccbe"(failed) : "r"((uint64_t)encoding));
    return !failed;
}

/* Everything that the first guest's VMCS has and that can be written. */
static void copy_vmcs(const void *from, const void *to)
{
#define ENCODING(name, encoding) encoding,
    static const uint16_t fields[] = {VMCS_FIELDS_16(ENCODING) VMCS_FIELDS_64(ENCODING)
                                          VMCS_FIELDS_32(ENCODING) VMCS_FIELDS_NATURAL(ENCODING)};
#undef ENCODING
    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        uint64_t value;
        if (ENCODING_READ_ONLY(fields[i]))
            continue;
        load_vmcs(from);
        if (!read_field(fields[i], &value))
            continue;
        load_vmcs(to);
        vmcs_write_raw(fields[i], value);
    }
    load_vmcs(to);
}

/* One page of code and nothing else. */
static uint64_t small_ept(void)
{
    uint64_t *tables = page_alloc(4);
    uint8_t *code = page_alloc(1);

    for (unsigned i = 0; &other_guest_code[i] < other_guest_code_end; i++)
        code[i] = other_guest_code[i];
    for (unsigned level = 0; level < 3; level++)
        tables[level * TABLE_ENTRIES] = (uint64_t)&tables[(level + 1) * TABLE_ENTRIES] | EPT_RWX;
    tables[3 * TABLE_ENTRIES + CODE_ADDRESS / PAGE_SIZE] = (uint64_t)code | EPT_RWX | EPT_WB;
    return (uint64_t)tables;
}

static void second_guest_state(uint64_t ept)
{
    uint32_t entry = vmcs_read_32(VMCS_ENTRY_CONTROLS);

    vmcs_write_32(VMCS_ENTRY_CONTROLS, entry & ~(uint32_t)ENTRY_IA32E_MODE_GUEST);
    vmcs_write_32(VMCS_EXIT_MSR_STORE_COUNT, 0);
    vmcs_write_32(VMCS_ENTRY_MSR_LOAD_COUNT, 0);
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, 0);
    vmcs_write_64(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, 0);
    vmcs_write_64(VMCS_GUEST_IA32_DEBUGCTL, 0);
    vmcs_write_64(VMCS_GUEST_IA32_EFER, 0);
    vmcs_write_64(VMCS_EPT_POINTER, ept | EPTP_WALK_4 | EPTP_MEMORY_WB);
    vmcs_write_16(VMCS_VPID, 2);
    vmcs_write_natural(VMCS_GUEST_CR0, (vmcs_read_natural(VMCS_GUEST_CR0) | CR0_PE) & ~CR0_PG);
    vmcs_write_natural(VMCS_GUEST_CR4, CR4_VMXE);
    vmcs_write_natural(VMCS_GUEST_CR3, 0);
    vmcs_write_natural(VMCS_GUEST_RIP, CODE_ADDRESS);
    vmcs_write_natural(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
    vmcs_write_32(VMCS_GUEST_CS_ACCESS_RIGHTS, RIGHTS_CODE_32);
    vmcs_write_natural(VMCS_GUEST_CS_BASE, 0);
    vmcs_write_32(VMCS_GUEST_CS_LIMIT, 0xffffffff);
    vmcs_write_32(VMCS_GUEST_SS_ACCESS_RIGHTS, ACCESS_UNUSABLE);
    vmcs_write_32(VMCS_GUEST_IDTR_LIMIT, 0);
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_ACTIVE);
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, 0);
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, 0);
}

int64_t test_other_guest(struct cpu *cpu)
{
    static void *vmcs;
    static uint64_t ept;
    static struct pmu_context *context;
    uint32_t registers[3] = {(uint32_t)cpu->gpr[GPR_RCX], (uint32_t)cpu->gpr[GPR_RBX],
                             (uint32_t)(cpu->gpr[GPR_RCX] >> 32)};
    bool with_switch = cpu->gpr[GPR_RDX] != WITHOUT_SWITCH;

    if (vmcs == NULL) {
        vmcs = page_alloc(1);
        context = page_alloc(1);
        ept = small_ept();
    }
    *(uint32_t *)vmcs = (uint32_t)(rdmsr(IA32_VMX_BASIC) & VMX_BASIC_REVISION);
    uint64_t address = (uint64_t)vmcs;
    __asm__ volatile("vmclear %0" : : "m"(address) : "cc", "memory");
    copy_vmcs(cpu->vmcs, vmcs);
    second_guest_state(ept);

    if (with_switch)
        pmu_context_switch(cpu, cpu->pmu.guest, context, true);
    bool ran = other_guest_run(registers);
    bool done = ran && vmcs_read_32(VMCS_EXIT_REASON) == EXIT_REASON_VMCALL;
    if (with_switch)
        pmu_context_switch(cpu, context, cpu->pmu.guest, true);

    load_vmcs(cpu->vmcs);
    if (!done)
        return HYPERCALL_E_STATE;
    cpu->gpr[GPR_RBX] = (uint64_t)registers[2] << 32 | registers[0];
    return 0;
}
