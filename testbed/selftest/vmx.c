/* SPDX-License-Identifier: BSD-2-Clause
 * vmx.c: what VM entry and VM exit do with GLOBAL_CTRL, DEBUGCTL and the MSR lists. The guest
 * shares the host's address space and runs one C function for each entry. SDM Vol. 3, "VM Entries"
 * and "VM Exits".
 */
#include "selftest.h"

#include "vmcs.h"

#define PAGE 4096
#define CR4_VMXE BIT(13)
#define FEATURE_CONTROL_LOCKED BIT(0)
#define FEATURE_CONTROL_VMX BIT(2)
#define SEGMENT_CODE64 0xa09b
#define SEGMENT_DATA 0xc093
#define SEGMENT_TSS 0x8b
#define SEGMENT_UNUSABLE 0x10000
#define RFLAGS_FIXED BIT(1)
#define DR7_FIXED BIT(10)
#define GUEST_STACK 8192
#define INTERRUPTION_VALID_NMI 0x80000202u
#define INTERRUPTION_VALID_UD 0x80000306u
#define RFLAGS_TF BIT(8)
#define RFLAGS_IF BIT(9)
#define BLOCKING_BY_STI BIT(0)
#define BLOCKING_BY_MOV_SS BIT(1)
#define DEBUGCTL_BTF BIT(1)
#define PENDING_BS BIT(14)
#define ACTIVITY_HLT 1

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};
_Static_assert(sizeof(struct msr_entry) == 16, "VMX MSR list entry");

struct table_register {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed));

static uint8_t vmxon_page[PAGE] __attribute__((aligned(PAGE)));
static uint8_t vmcs_page[PAGE] __attribute__((aligned(PAGE)));
static uint8_t msr_bitmap[PAGE] __attribute__((aligned(PAGE)));
static uint8_t guest_stack[GUEST_STACK] __attribute__((aligned(16)));
static struct msr_entry entry_load __attribute__((aligned(16)));
static struct msr_entry exit_store __attribute__((aligned(16)));

/* What the guest runs, and what it leaves. */
void (*guest_job)(void);
static volatile uint64_t guest_rounds;
static volatile uint64_t guest_value;
static uint64_t launched;

enum entry_result { ENTERED, FAIL_VALID, FAIL_INVALID };

static uint64_t address_of(const void *object) { return (uint64_t)(uintptr_t)object; }

uint64_t vmx_read(uint64_t field)
{
    uint64_t value;

    __asm__ volatile("vmread %1, %0" : "=r"(value) : "r"(field) : "cc", "memory");
    return value;
}

void vmx_write(uint64_t field, uint64_t value)
{
    uint8_t failed;

    __asm__ volatile("vmwrite %2, %1; setbe %0"
                     : "=qm"(failed)
                     : "r"(field), "r"(value)
                     : "cc", "memory");
    if (failed) {
        check_equal("VMWRITE of this field works", field, 0);
        power_off();
    }
}

/* The guest: a job, then an exit, for ever. */
void guest_entry(void);
__asm__("guest_entry:\n\t"
        "call *guest_job(%rip)\n\t"
        "vmcall\n\t"
        "jmp guest_entry");

/* Enters the guest; after its exit, or if the entry is refused, comes back. */
static enum entry_result enter(void)
{
    uint64_t result = ENTERED;

    __asm__ volatile("push %%rbp\n\t"
                     "push %%rbx\n\t"
                     "mov %2, %%rax\n\t"
                     "vmwrite %%rsp, %%rax\n\t"
                     "mov %3, %%rax\n\t"
                     "lea 3f(%%rip), %%rcx\n\t"
                     "vmwrite %%rcx, %%rax\n\t"
                     "cmpq $0, %1\n\t"
                     "jne 1f\n\t"
                     "vmlaunch\n\t"
                     "jmp 2f\n"
                     "1: vmresume\n"
                     "2: mov $2, %%eax\n\t"
                     "jc 4f\n\t"
                     "mov $1, %%eax\n\t"
                     "jmp 4f\n"
                     "3: xor %%eax, %%eax\n"
                     "4: pop %%rbx\n\t"
                     "pop %%rbp"
                     : "=&a"(result)
                     : "m"(launched), "i"(VMCS_HOST_RSP), "i"(VMCS_HOST_RIP)
                     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "cc", "memory");
    return (enum entry_result)result;
}

/* Runs one job in the guest and gives the exit reason; the guest goes on after its VMCALL. */
uint64_t vmx_run(void (*job)(void))
{
    uint64_t reason;

    guest_job = job;
    if (enter() != ENTERED) {
        check_equal("VM-instruction error", vmx_read(VMCS_INSTRUCTION_ERROR), 0);
        power_off();
    }
    reason = vmx_read(VMCS_EXIT_REASON);
    if (reason == REASON_VMCALL) {
        launched = 1;
        vmx_write(VMCS_GUEST_RIP,
                  vmx_read(VMCS_GUEST_RIP) + vmx_read(VMCS_EXIT_INSTRUCTION_LENGTH));
    }
    return reason;
}

uint64_t vmx_refusal(void (*job)(void))
{
    guest_job = job;
    return enter() == FAIL_VALID ? vmx_read(VMCS_INSTRUCTION_ERROR) : 0;
}

static uint64_t adjust(uint32_t capability, uint64_t wanted)
{
    uint64_t allowed = rdmsr(capability);

    return (wanted | (uint32_t)allowed) & allowed >> 32;
}

static void write_controls(void)
{
    vmx_write(VMCS_PIN_CONTROLS, adjust(IA32_VMX_TRUE_PINBASED_CTLS, 0));
    vmx_write(VMCS_PRIMARY_CONTROLS, adjust(IA32_VMX_TRUE_PROCBASED_CTLS, PRIMARY_USE_MSR_BITMAPS));
    vmx_write(VMCS_EXIT_CONTROLS, adjust(IA32_VMX_TRUE_EXIT_CTLS, EXIT_SAVE_DEBUG_CONTROLS |
                                                                      EXIT_HOST_ADDRESS_SPACE_SIZE |
                                                                      EXIT_LOAD_GLOBAL_CTRL));
    vmx_write(VMCS_ENTRY_CONTROLS,
              adjust(IA32_VMX_TRUE_ENTRY_CTLS,
                     ENTRY_LOAD_DEBUG_CONTROLS | ENTRY_IA32E_GUEST | ENTRY_LOAD_GLOBAL_CTRL));
    vmx_write(VMCS_MSR_BITMAPS, address_of(msr_bitmap));
    vmx_write(VMCS_LINK_POINTER, ~UINT64_C(0));
    vmx_write(VMCS_ENTRY_MSR_LOAD_ADDRESS, address_of(&entry_load));
    vmx_write(VMCS_EXIT_MSR_STORE_ADDRESS, address_of(&exit_store));
}

/* Guest and host are the same machine but for stack and instruction pointer. */
static void write_state(void)
{
    struct table_register gdtr, idtr;
    uint64_t cr0, cr3, cr4;

    __asm__ volatile("sgdt %0; sidt %1" : "=m"(gdtr), "=m"(idtr));
    __asm__ volatile("mov %%cr0, %0; mov %%cr3, %1; mov %%cr4, %2"
                     : "=r"(cr0), "=r"(cr3), "=r"(cr4));
    /* ES, CS, SS, DS, FS, GS: consecutive fields. */
    for (uint64_t n = 0; n < 6; n++) {
        uint64_t selector = n == 1 ? SELECTOR_CODE : SELECTOR_DATA;
        vmx_write(VMCS_GUEST_ES_SELECTOR + 2 * n, selector);
        vmx_write(VMCS_HOST_ES_SELECTOR + 2 * n, selector);
        vmx_write(VMCS_GUEST_ES_LIMIT + 2 * n, 0xffffffff);
        vmx_write(VMCS_GUEST_ES_ACCESS + 2 * n, n == 1 ? SEGMENT_CODE64 : SEGMENT_DATA);
    }
    vmx_write(VMCS_GUEST_LDTR_ACCESS, SEGMENT_UNUSABLE);
    vmx_write(VMCS_GUEST_TR_SELECTOR, SELECTOR_TSS);
    vmx_write(VMCS_HOST_TR_SELECTOR, SELECTOR_TSS);
    vmx_write(VMCS_GUEST_TR_LIMIT, TSS_SIZE - 1);
    vmx_write(VMCS_GUEST_TR_ACCESS, SEGMENT_TSS);
    vmx_write(VMCS_GUEST_TR_BASE, address_of(task_state));
    vmx_write(VMCS_HOST_TR_BASE, address_of(task_state));
    vmx_write(VMCS_GUEST_GDTR_BASE, gdtr.base);
    vmx_write(VMCS_HOST_GDTR_BASE, gdtr.base);
    vmx_write(VMCS_GUEST_GDTR_LIMIT, gdtr.limit);
    vmx_write(VMCS_GUEST_IDTR_BASE, idtr.base);
    vmx_write(VMCS_HOST_IDTR_BASE, idtr.base);
    vmx_write(VMCS_GUEST_IDTR_LIMIT, idtr.limit);
    vmx_write(VMCS_GUEST_CR0, cr0);
    vmx_write(VMCS_HOST_CR0, cr0);
    vmx_write(VMCS_GUEST_CR3, cr3);
    vmx_write(VMCS_HOST_CR3, cr3);
    vmx_write(VMCS_GUEST_CR4, cr4);
    vmx_write(VMCS_HOST_CR4, cr4);
    vmx_write(VMCS_GUEST_DR7, DR7_FIXED);
    vmx_write(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
    vmx_write(VMCS_GUEST_RIP, address_of((const void *)guest_entry));
    vmx_write(VMCS_GUEST_RSP, address_of(guest_stack + GUEST_STACK - 64));
}

static void vmx_on(void)
{
    uint64_t vmxon = address_of(vmxon_page), vmcs = address_of(vmcs_page);
    uint32_t revision = (uint32_t)rdmsr(IA32_VMX_BASIC);
    uint64_t cr4;

    if ((rdmsr(IA32_FEATURE_CONTROL) & FEATURE_CONTROL_LOCKED) == 0)
        wrmsr(IA32_FEATURE_CONTROL, FEATURE_CONTROL_LOCKED | FEATURE_CONTROL_VMX);
    __asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
    __asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_VMXE));
    __asm__ volatile("mov %%cr0, %%rax; or $0x20, %%eax; mov %%rax, %%cr0" : : : "rax");
    *(uint32_t *)(void *)vmxon_page = revision;
    *(uint32_t *)(void *)vmcs_page = revision;
    __asm__ volatile("vmxon %0; vmclear %1; vmptrld %1" : : "m"(vmxon), "m"(vmcs) : "cc", "memory");
}

/* Jobs of the guest. */

static void job_loop(void)
{
    uint64_t rounds = guest_rounds;

    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

static void job_own_msrs(void)
{
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_FREEZE_LBRS_ON_PMI);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 3);
}

static void job_read_counter(void) { guest_value = rdmsr(IA32_PMC0); }

static void host_loop(void)
{
    guest_rounds = 5000;
    job_loop();
}

/* What counter 0 counts while the guest runs `rounds` rounds. */
static uint64_t guest_count(uint64_t rounds)
{
    uint64_t before = rdmsr(IA32_PMC0);

    guest_rounds = rounds;
    check_equal("loop: exit reason", vmx_run(job_loop), REASON_VMCALL);
    return rdmsr(IA32_PMC0) - before;
}

static void test_global_ctrl(void)
{
    uint64_t few, many;

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_EN);
    vmx_write(VMCS_GUEST_GLOBAL_CTRL, 1);
    vmx_write(VMCS_HOST_GLOBAL_CTRL, 0);
    /* The first entry begins before the guest's loop, all others inside it. */
    guest_count(1);
    few = guest_count(10);
    many = guest_count(100010);
    check_equal("the guest's instructions count", many - few, 200000);
    /* The call and the job around its loop; VMRESUME and VMCALL do not retire in the guest. */
    check_that("nearly nothing else does", few >= 20 && few < 40);
    check_equal("GLOBAL_CTRL after the exit", rdmsr(IA32_PERF_GLOBAL_CTRL), 0);
    few = rdmsr(IA32_PMC0);
    host_loop();
    check_equal("root mode does not count", rdmsr(IA32_PMC0), few);
}

static void test_debugctl_and_lists(void)
{
    exit_store = (struct msr_entry){IA32_PERF_GLOBAL_CTRL, 0, 0};
    vmx_write(VMCS_EXIT_MSR_STORE_COUNT, 1);
    vmx_write(VMCS_GUEST_DEBUGCTL, DEBUGCTL_LBR);
    vmx_run(job_loop);
    check_equal("DEBUGCTL saved as it was", vmx_read(VMCS_GUEST_DEBUGCTL), DEBUGCTL_LBR);
    check_equal("DEBUGCTL after the exit", rdmsr(IA32_DEBUGCTL), 0);
    vmx_run(job_own_msrs);
    check_equal("DEBUGCTL as the guest wrote it", vmx_read(VMCS_GUEST_DEBUGCTL),
                DEBUGCTL_FREEZE_LBRS_ON_PMI);
    check_equal("GLOBAL_CTRL by the exit MSR-store list", exit_store.value, 3);
    check_equal("GLOBAL_CTRL's field is not saved", vmx_read(VMCS_GUEST_GLOBAL_CTRL), 1);
    vmx_write(VMCS_EXIT_MSR_STORE_COUNT, 0);
    vmx_write(VMCS_GUEST_DEBUGCTL, 0);

    wrmsr(IA32_PERFEVTSEL0, 0);
    entry_load = (struct msr_entry){IA32_A_PMC0, 0, 77};
    vmx_write(VMCS_ENTRY_MSR_LOAD_COUNT, 1);
    vmx_run(job_read_counter);
    check_equal("counter by the entry MSR-load list", guest_value, 77);
    vmx_write(VMCS_ENTRY_MSR_LOAD_COUNT, 0);
}

/* Fields that together are no state of a guest's. SDM Vol. 3, "Checks on the Guest State Area". */
static const struct state {
    const char *what;
    bool refused;
    struct {
        uint32_t field;
        uint64_t value; /* XORed with what is there */
    } changes[4];
} states[] = {
    {"RIP outside the linear addresses", true, {{VMCS_GUEST_RIP, BIT(60)}}},
    {"IA-32e mode without paging", true, {{VMCS_GUEST_CR0, BIT(31)}}},
    {"a single step that is not pending, after STI",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF | RFLAGS_IF}, {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_STI}}},
    {"a single step that is not pending, after MOV SS",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF}, {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_MOV_SS}}},
    {"a single step that is not pending, in HLT",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF}, {VMCS_GUEST_ACTIVITY, ACTIVITY_HLT}}},
    {"a pending step without TF",
     true,
     {{VMCS_GUEST_PENDING_DEBUG, PENDING_BS}, {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_MOV_SS}}},
    {"a pending step with BTF",
     true,
     {{VMCS_GUEST_PENDING_DEBUG, PENDING_BS},
      {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_MOV_SS},
      {VMCS_GUEST_RFLAGS, RFLAGS_TF},
      {VMCS_GUEST_DEBUGCTL, DEBUGCTL_BTF}}},
    {"#UD in HLT",
     true,
     {{VMCS_GUEST_ACTIVITY, ACTIVITY_HLT}, {VMCS_ENTRY_INTERRUPTION_INFO, INTERRUPTION_VALID_UD}}},
    {"an NMI after STI",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_IF},
      {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_STI},
      {VMCS_ENTRY_INTERRUPTION_INFO, INTERRUPTION_VALID_NMI}}},
    {"MOV SS with BTF",
     false,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF},
      {VMCS_GUEST_DEBUGCTL, DEBUGCTL_BTF},
      {VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_MOV_SS}}},
};

static void test_states(void)
{
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        uint64_t before[4] = {0};

        for (unsigned n = 0; n < 4 && states[i].changes[n].field != 0; n++) {
            before[n] = vmx_read(states[i].changes[n].field);
            vmx_write(states[i].changes[n].field, before[n] ^ states[i].changes[n].value);
        }
        guest_rounds = 1;
        check_equal(states[i].what, vmx_run(job_loop),
                    states[i].refused ? REASON_ENTRY_GUEST_STATE : REASON_VMCALL);
        for (unsigned n = 0; states[i].refused && n < 4 && states[i].changes[n].field != 0; n++) {
            check_equal("the field is untouched", vmx_read(states[i].changes[n].field),
                        before[n] ^ states[i].changes[n].value);
            vmx_write(states[i].changes[n].field, before[n]);
        }
        vmx_write(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
        vmx_write(VMCS_GUEST_DEBUGCTL, 0);
    }
}

static void test_refusals(void)
{
    vmx_write(VMCS_GUEST_GLOBAL_CTRL, BIT(5));
    check_equal("bad guest GLOBAL_CTRL", vmx_run(job_loop), REASON_ENTRY_GUEST_STATE);
    check_equal("RFLAGS' field is untouched", vmx_read(VMCS_GUEST_RFLAGS) & RFLAGS_FIXED,
                RFLAGS_FIXED);
    vmx_write(VMCS_GUEST_GLOBAL_CTRL, 1);
    vmx_write(VMCS_GUEST_DEBUGCTL, BIT(2));
    check_equal("bad guest DEBUGCTL", vmx_run(job_loop), REASON_ENTRY_GUEST_STATE);
    vmx_write(VMCS_GUEST_DEBUGCTL, 0);
    vmx_write(VMCS_HOST_GLOBAL_CTRL, BIT(40));
    check_equal("bad host GLOBAL_CTRL", enter(), FAIL_VALID);
    check_equal("its VM-instruction error", vmx_read(VMCS_INSTRUCTION_ERROR), ERROR_HOST_STATE);
    check_equal("TR's field is untouched", vmx_read(VMCS_HOST_TR_SELECTOR), SELECTOR_TSS);
    vmx_write(VMCS_HOST_GLOBAL_CTRL, 0);
    test_states();
    guest_rounds = 1;
    check_equal("good again", vmx_run(job_loop), REASON_VMCALL);
    check_that("no save control of GLOBAL_CTRL",
               (rdmsr(IA32_VMX_TRUE_EXIT_CTLS) >> 32 & EXIT_SAVE_GLOBAL_CTRL) == 0);
}

/* A PMI in the guest: through its IDT without "NMI exiting", as a VM exit with it. */
static void test_pmi(void)
{
    guest_rounds = 100;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, BIT(48) - 50);
    lvtpc_write(LVT_NMI);
    nmis = 0;
    check_equal("PMI in the guest: exit reason", vmx_run(job_loop), REASON_VMCALL);
    check_equal("PMI in the guest: NMIs", nmis, 1);
    check_equal("PMI in the guest: STATUS", rdmsr(IA32_PERF_GLOBAL_STATUS), 1);

    wrmsr(IA32_A_PMC0, BIT(48) - 50);
    lvtpc_write(LVT_NMI);
    vmx_write(VMCS_PIN_CONTROLS, adjust(IA32_VMX_TRUE_PINBASED_CTLS, PIN_NMI_EXITING));
    check_equal("NMI exiting: exit reason", vmx_run(job_loop), REASON_EXCEPTION_OR_NMI);
    check_equal("NMI exiting: interruption information", vmx_read(VMCS_EXIT_INTERRUPTION_INFO),
                INTERRUPTION_VALID_NMI);
    check_equal("NMI exiting: no NMI through the IDT", nmis, 1);
}

void vmx_begin(void)
{
    vmx_on();
    write_controls();
    write_state();
}

void test_vmx(void)
{
    vmx_begin();
    test_global_ctrl();
    test_debugctl_and_lists();
    test_refusals();
    test_inject();
    test_virtual();
    test_pmi();
}
