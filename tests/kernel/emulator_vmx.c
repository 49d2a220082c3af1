/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What VM entry and VM exit do with GLOBAL_CTRL, DEBUGCTL and the MSR lists. The guest
 * shares the host's address space and runs one C function for each entry. SDM Vol. 3, "VM Entries"
 * and "VM Exits".
 */
#include "emulator_vmx.h"

#define GUEST_STACK 8192
#define INTERRUPTION_VALID_NMI 0x80000202u
#define INTERRUPTION_VALID_UD 0x80000306u

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};
_Static_assert(sizeof(struct msr_entry) == 16, "VMX MSR list entry");

static uint32_t vmxon_page[PAGE_SIZE / 4] __attribute__((aligned(PAGE_SIZE)));
static uint32_t vmcs_page[PAGE_SIZE / 4] __attribute__((aligned(PAGE_SIZE)));
static uint8_t msr_bitmap[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));
static uint8_t guest_stack[GUEST_STACK] __attribute__((aligned(16)));
static struct msr_entry entry_load __attribute__((aligned(16)));
static struct msr_entry exit_store __attribute__((aligned(16)));

/* The guest's next job, and what the jobs read and return. */
void (*guest_job)(void);
static volatile uint64_t guest_rounds;
static volatile uint64_t guest_value;
static uint64_t launched;

enum entry_result { ENTERED, FAIL_VALID, FAIL_INVALID };

static uint64_t address_of(const void *object) { return (uint64_t)(uintptr_t)object; }

void vmcs_access_failed(uint32_t encoding, bool write)
{
    tap_note("%s of VMCS field 0x%x failed", write ? "VMWRITE" : "VMREAD", encoding);
    tap_bail_out("a VMCS field cannot be accessed");
}

void vmx_set(uint32_t field, uint64_t bits, bool on)
{
    vmcs_write_raw(field, (vmcs_read_raw(field) & ~bits) | (on ? bits : 0));
}

/* The guest runs a job and exits, again and again. */
void guest_entry(void);
__asm__("guest_entry:\n\t"
        "call *guest_job(%rip)\n\t"
        "vmcall\n\t"
        "jmp guest_entry");

/* Enters the guest. Returns after the exit, or if the entry is refused. */
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

uint64_t vmx_run(void (*job)(void))
{
    uint64_t reason;

    guest_job = job;
    if (enter() != ENTERED) {
        tap_note("VM-instruction error %lu", vmcs_read_raw(VMCS_INSTRUCTION_ERROR));
        tap_bail_out("a VM entry failed");
    }
    reason = vmcs_read_raw(VMCS_EXIT_REASON);
    if (reason == EXIT_REASON_VMCALL) {
        launched = 1;
        vmcs_write_raw(VMCS_GUEST_RIP,
                       vmcs_read_raw(VMCS_GUEST_RIP) + vmcs_read_raw(VMCS_EXIT_INSTRUCTION_LENGTH));
    }
    return reason;
}

uint64_t vmx_refusal(void (*job)(void))
{
    guest_job = job;
    return enter() == FAIL_VALID ? vmcs_read_raw(VMCS_INSTRUCTION_ERROR) : 0;
}

static uint64_t adjust(uint32_t capability, uint64_t wanted)
{
    uint64_t allowed = rdmsr(capability);

    return (wanted | (uint32_t)allowed) & allowed >> 32;
}

static void write_controls(void)
{
    vmcs_write_raw(VMCS_PIN_BASED_CONTROLS, adjust(IA32_VMX_TRUE_PINBASED_CTLS, 0));
    vmcs_write_raw(VMCS_PRIMARY_CONTROLS,
                   adjust(IA32_VMX_TRUE_PROCBASED_CTLS, PRIMARY_USE_MSR_BITMAPS));
    vmcs_write_raw(VMCS_EXIT_CONTROLS,
                   adjust(IA32_VMX_TRUE_EXIT_CTLS, EXIT_SAVE_DEBUG_CONTROLS |
                                                       EXIT_HOST_ADDRESS_SPACE_SIZE |
                                                       EXIT_LOAD_GLOBAL_CTRL));
    vmcs_write_raw(VMCS_ENTRY_CONTROLS, adjust(IA32_VMX_TRUE_ENTRY_CTLS,
                                               ENTRY_LOAD_DEBUG_CONTROLS | ENTRY_IA32E_MODE_GUEST |
                                                   ENTRY_LOAD_GLOBAL_CTRL));
    vmcs_write_raw(VMCS_MSR_BITMAPS, fuzz_physical(msr_bitmap));
    vmcs_write_raw(VMCS_VMCS_LINK_POINTER, ~UINT64_C(0));
    vmcs_write_raw(VMCS_ENTRY_MSR_LOAD_ADDRESS, fuzz_physical(&entry_load));
    vmcs_write_raw(VMCS_EXIT_MSR_STORE_ADDRESS, fuzz_physical(&exit_store));
}

/* Guest and host share all state except RSP and RIP. */
static void write_state(void)
{
    struct table_register gdtr, idtr;
    const uint64_t cr0 = read_cr0(), cr3 = read_cr3(), cr4 = read_cr4();
    const uint64_t task_state = address_of(cpu_task_state());

    __asm__ volatile("sgdt %0; sidt %1" : "=m"(gdtr), "=m"(idtr));
    /* The fields of ES, CS, SS, DS, FS and GS are consecutive. */
    for (uint64_t n = 0; n < 6; n++) {
        uint64_t selector = n == 1 ? CODE_SELECTOR : DATA_SELECTOR;
        vmcs_write_raw(VMCS_GUEST_ES_SELECTOR + 2 * n, selector);
        vmcs_write_raw(VMCS_HOST_ES_SELECTOR + 2 * n, selector);
        vmcs_write_raw(VMCS_GUEST_ES_LIMIT + 2 * n, 0xffffffff);
        vmcs_write_raw(VMCS_GUEST_ES_ACCESS_RIGHTS + 2 * n, n == 1 ? RIGHTS_CODE_64 : RIGHTS_DATA);
    }
    vmcs_write_raw(VMCS_GUEST_LDTR_ACCESS_RIGHTS, ACCESS_UNUSABLE);
    vmcs_write_raw(VMCS_GUEST_TR_SELECTOR, TSS_SELECTOR);
    vmcs_write_raw(VMCS_HOST_TR_SELECTOR, TSS_SELECTOR);
    vmcs_write_raw(VMCS_GUEST_TR_LIMIT, sizeof(struct tss) - 1);
    vmcs_write_raw(VMCS_GUEST_TR_ACCESS_RIGHTS, RIGHTS_REAL_TSS);
    vmcs_write_raw(VMCS_GUEST_TR_BASE, task_state);
    vmcs_write_raw(VMCS_HOST_TR_BASE, task_state);
    vmcs_write_raw(VMCS_GUEST_GDTR_BASE, gdtr.base);
    vmcs_write_raw(VMCS_HOST_GDTR_BASE, gdtr.base);
    vmcs_write_raw(VMCS_GUEST_GDTR_LIMIT, gdtr.limit);
    vmcs_write_raw(VMCS_GUEST_IDTR_BASE, idtr.base);
    vmcs_write_raw(VMCS_HOST_IDTR_BASE, idtr.base);
    vmcs_write_raw(VMCS_GUEST_IDTR_LIMIT, idtr.limit);
    vmcs_write_raw(VMCS_GUEST_CR0, cr0);
    vmcs_write_raw(VMCS_HOST_CR0, cr0);
    vmcs_write_raw(VMCS_GUEST_CR3, cr3);
    vmcs_write_raw(VMCS_HOST_CR3, cr3);
    vmcs_write_raw(VMCS_GUEST_CR4, cr4);
    vmcs_write_raw(VMCS_HOST_CR4, cr4);
    vmcs_write_raw(VMCS_GUEST_DR7, DR7_RESET);
    vmcs_write_raw(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
    vmcs_write_raw(VMCS_GUEST_RIP, address_of((const void *)guest_entry));
    vmcs_write_raw(VMCS_GUEST_RSP, address_of(guest_stack + GUEST_STACK - 64));
}

static void vmx_on(void)
{
    uint64_t vmxon = fuzz_physical(vmxon_page), vmcs = fuzz_physical(vmcs_page);
    uint32_t revision = (uint32_t)rdmsr(IA32_VMX_BASIC);

    if ((rdmsr(IA32_FEATURE_CONTROL) & FEATURE_CONTROL_LOCK) == 0)
        wrmsr(IA32_FEATURE_CONTROL, FEATURE_CONTROL_LOCK | FEATURE_CONTROL_VMX_OUTSIDE_SMX);
    write_cr4(read_cr4() | CR4_VMXE);
    write_cr0(read_cr0() | CR0_NE);
    vmxon_page[0] = revision;
    vmcs_page[0] = revision;
    __asm__ volatile("vmxon %0; vmclear %1; vmptrld %1" : : "m"(vmxon), "m"(vmcs) : "cc", "memory");
}

/* The guest's jobs. */

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

/* Returns what counter 0 counts while the guest runs `rounds` rounds. */
static uint64_t guest_count(uint64_t rounds)
{
    uint64_t before = rdmsr(IA32_PMC0);

    guest_rounds = rounds;
    check_equal("loop: exit reason", vmx_run(job_loop), EXIT_REASON_VMCALL);
    return rdmsr(IA32_PMC0) - before;
}

static void check_global_ctrl(void)
{
    uint64_t few, many;

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_EN);
    vmcs_write_raw(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, 1);
    vmcs_write_raw(VMCS_HOST_IA32_PERF_GLOBAL_CTRL, 0);
    /* The first entry begins at guest_entry, each other one after a VMCALL. */
    guest_count(1);
    few = guest_count(10);
    many = guest_count(100010);
    check_equal("the guest's instructions count", many - few, 200000);
    /* The rest is the call and the job around the loop. VMRESUME and VMCALL do not retire. */
    check_that("nearly nothing else does", few >= 20 && few < 40);
    check_equal("GLOBAL_CTRL after the exit", rdmsr(IA32_PERF_GLOBAL_CTRL), 0);
    few = rdmsr(IA32_PMC0);
    host_loop();
    check_equal("root mode does not count", rdmsr(IA32_PMC0), few);
}

static void check_debugctl_and_lists(void)
{
    exit_store = (struct msr_entry){IA32_PERF_GLOBAL_CTRL, 0, 0};
    vmcs_write_raw(VMCS_EXIT_MSR_STORE_COUNT, 1);
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, DEBUGCTL_LBR);
    vmx_run(job_loop);
    check_equal("DEBUGCTL saved as it was", vmcs_read_raw(VMCS_GUEST_IA32_DEBUGCTL), DEBUGCTL_LBR);
    check_equal("DEBUGCTL after the exit", rdmsr(IA32_DEBUGCTL), 0);
    vmx_run(job_own_msrs);
    check_equal("DEBUGCTL as the guest wrote it", vmcs_read_raw(VMCS_GUEST_IA32_DEBUGCTL),
                DEBUGCTL_FREEZE_LBRS_ON_PMI);
    check_equal("GLOBAL_CTRL by the exit MSR-store list", exit_store.value, 3);
    check_equal("GLOBAL_CTRL's field is not saved", vmcs_read_raw(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL),
                1);
    vmcs_write_raw(VMCS_EXIT_MSR_STORE_COUNT, 0);
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, 0);

    wrmsr(IA32_PERFEVTSEL0, 0);
    entry_load = (struct msr_entry){IA32_A_PMC0, 0, 77};
    vmcs_write_raw(VMCS_ENTRY_MSR_LOAD_COUNT, 1);
    vmx_run(job_read_counter);
    check_equal("counter by the entry MSR-load list", guest_value, 77);
    vmcs_write_raw(VMCS_ENTRY_MSR_LOAD_COUNT, 0);
}

/* Guest states that VM entry refuses. SDM Vol. 3, "Checks on the Guest State Area". */
static const struct state {
    const char *what;
    bool refused;
    struct {
        uint32_t field;
        uint64_t value; /* XORed with the field */
    } changes[4];
} states[] = {
    {"RIP outside the linear addresses", true, {{VMCS_GUEST_RIP, BIT(60)}}},
    {"IA-32e mode without paging", true, {{VMCS_GUEST_CR0, BIT(31)}}},
    {"a single step that is not pending, after STI",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF | RFLAGS_IF},
      {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_STI}}},
    {"a single step that is not pending, after MOV SS",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF}, {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_MOV_SS}}},
    {"a single step that is not pending, in HLT",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF}, {VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT}}},
    {"a pending step without TF",
     true,
     {{VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, PENDING_DEBUG_BS},
      {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_MOV_SS}}},
    {"a pending step with BTF",
     true,
     {{VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, PENDING_DEBUG_BS},
      {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_MOV_SS},
      {VMCS_GUEST_RFLAGS, RFLAGS_TF},
      {VMCS_GUEST_IA32_DEBUGCTL, DEBUGCTL_BTF}}},
    {"#UD in HLT",
     true,
     {{VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT},
      {VMCS_ENTRY_INTERRUPTION_INFORMATION, INTERRUPTION_VALID_UD}}},
    {"an NMI after STI",
     true,
     {{VMCS_GUEST_RFLAGS, RFLAGS_IF},
      {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_STI},
      {VMCS_ENTRY_INTERRUPTION_INFORMATION, INTERRUPTION_VALID_NMI}}},
    {"MOV SS with BTF",
     false,
     {{VMCS_GUEST_RFLAGS, RFLAGS_TF},
      {VMCS_GUEST_IA32_DEBUGCTL, DEBUGCTL_BTF},
      {VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_MOV_SS}}},
};

static void check_states(void)
{
    for (unsigned i = 0; i < LENGTH_OF(states); i++) {
        uint64_t before[4] = {0};

        for (unsigned n = 0; n < 4 && states[i].changes[n].field != 0; n++) {
            before[n] = vmcs_read_raw(states[i].changes[n].field);
            vmcs_write_raw(states[i].changes[n].field, before[n] ^ states[i].changes[n].value);
        }
        guest_rounds = 1;
        check_equal(states[i].what, vmx_run(job_loop),
                    states[i].refused ? REASON_ENTRY_GUEST_STATE : EXIT_REASON_VMCALL);
        for (unsigned n = 0; states[i].refused && n < 4 && states[i].changes[n].field != 0; n++) {
            check_equal("the field is untouched", vmcs_read_raw(states[i].changes[n].field),
                        before[n] ^ states[i].changes[n].value);
            vmcs_write_raw(states[i].changes[n].field, before[n]);
        }
        vmcs_write_raw(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
        vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, 0);
    }
}

static void check_refusals(void)
{
    vmcs_write_raw(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, BIT(5));
    check_equal("bad guest GLOBAL_CTRL", vmx_run(job_loop), REASON_ENTRY_GUEST_STATE);
    check_equal("RFLAGS' field is untouched", vmcs_read_raw(VMCS_GUEST_RFLAGS) & RFLAGS_FIXED,
                RFLAGS_FIXED);
    vmcs_write_raw(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, 1);
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, BIT(2));
    check_equal("bad guest DEBUGCTL", vmx_run(job_loop), REASON_ENTRY_GUEST_STATE);
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, 0);
    vmcs_write_raw(VMCS_HOST_IA32_PERF_GLOBAL_CTRL, BIT(40));
    check_equal("bad host GLOBAL_CTRL", enter(), FAIL_VALID);
    check_equal("its VM-instruction error", vmcs_read_raw(VMCS_INSTRUCTION_ERROR),
                ERROR_HOST_STATE);
    check_equal("TR's field is untouched", vmcs_read_raw(VMCS_HOST_TR_SELECTOR), TSS_SELECTOR);
    vmcs_write_raw(VMCS_HOST_IA32_PERF_GLOBAL_CTRL, 0);
    check_states();
    guest_rounds = 1;
    check_equal("good again", vmx_run(job_loop), EXIT_REASON_VMCALL);
    check_that("no save control of GLOBAL_CTRL",
               (rdmsr(IA32_VMX_TRUE_EXIT_CTLS) >> 32 & EXIT_SAVE_GLOBAL_CTRL) == 0);
}

/* A PMI in the guest goes through the guest's IDT. With "NMI exiting" it exits. */
static void check_pmi(void)
{
    guest_rounds = 100;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, BIT(48) - 50);
    apic_write_lvtpc(LVT_NMI);
    nmi.count = 0;
    check_equal("PMI in the guest: exit reason", vmx_run(job_loop), EXIT_REASON_VMCALL);
    check_equal("PMI in the guest: NMIs", nmi.count, 1);
    check_equal("PMI in the guest: STATUS", rdmsr(IA32_PERF_GLOBAL_STATUS), 1);

    wrmsr(IA32_A_PMC0, BIT(48) - 50);
    apic_write_lvtpc(LVT_NMI);
    vmcs_write_raw(VMCS_PIN_BASED_CONTROLS, adjust(IA32_VMX_TRUE_PINBASED_CTLS, PIN_NMI_EXITING));
    check_equal("NMI exiting: exit reason", vmx_run(job_loop), EXIT_REASON_EXCEPTION_OR_NMI);
    check_equal("NMI exiting: interruption information",
                vmcs_read_raw(VMCS_EXIT_INTERRUPTION_INFORMATION), INTERRUPTION_VALID_NMI);
    check_equal("NMI exiting: no NMI through the IDT", nmi.count, 1);
}

void vmx_begin(void)
{
    static bool begun;

    if (begun)
        return;
    begun = true;
    vmx_on();
    write_controls();
    write_state();
}

void emulator_vmx(void)
{
    events_begin(); /* one of the states is in single steps */
    vmx_begin();
    check_global_ctrl();
    check_debugctl_and_lists();
    check_refusals();
    check_pmi();
}
