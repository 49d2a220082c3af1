/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs the hypervisor's own functions (nmi/, vmx/exit/exit.c) for the model. They are compiled with
 * -fsanitize=thread, whose hooks, defined here, stop them before each access to a word that an NMI
 * or another processor may change: there the model lets NMIs arrive and others go on. No access is
 * left out by mistake, because the compiler finds them.
 */
#include "run_code.h"

#include <asm/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apic/apic.h"
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"
#include "vmx/start/start.h"

#define STACK_BYTES 1024
#define SAVED_REGISTERS 6
#define PLATFORM_LINE NMI_STATUS_SERR
#define OVERFLOW_0 BIT(0)

struct coroutine coroutines[CO_COUNT];
struct machine machine;
struct cpu the_cpu;
static struct boot_info boot;
volatile uint32_t processors_stopper;

static uint8_t stacks[CO_COUNT][STACK_BYTES] __attribute__((aligned(64)));
static int running, event;
static uint8_t *model_stack, *coroutine_stack;

void switch_stack(uint8_t **save, uint8_t *to);
__asm__(".globl switch_stack\n"
        "switch_stack:\n\t"
        "push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
        "mov %rsp, (%rdi)\n\t"
        "mov %rsi, %rsp\n\t"
        "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\t"
        "ret");

static void stop(int why)
{
    event = why;
    switch_stack(&coroutine_stack, model_stack);
}

static void end(void)
{
    for (;;)
        stop(E_DONE);
}

/* ---- what runs ---- */
void stay(void); /* stay.c */

static void nmi_handler(void)
{
    static const struct nmi_frame interrupted;

    enum nmi_return back = nmi_root(&interrupted);

    machine.unblocks = back != NMI_RETURN_BLOCKED;
    machine.restarts = back == NMI_RETURN_COUNTING;
}
static void sender(void) { (void)nmi_request_backtrace(&the_cpu); }

static void (*const functions[CO_COUNT])(void) = {
    [CO_STAY] = stay,
    [CO_NMI] = nmi_handler,
    [CO_SENDER] = sender,
};

static void first(void)
{
    functions[running]();
    end();
}

void model_begin(int who)
{
    struct coroutine *c = &coroutines[who];
    void (*const entry)(void) = first;

    /* Registers of zero, the function's address, and a return address that is never used. */
    memset(c, 0, sizeof(*c));
    c->used = (SAVED_REGISTERS + 2) * sizeof(uint64_t);
    memcpy(c->stack + SAVED_REGISTERS * sizeof(uint64_t), &entry, sizeof(entry));
}

/* Counts that only people read would make every state a new one. */
static void forget_statistics(void)
{
    struct cpu_nmi *nmi = &the_cpu.nmi;

    nmi->before_guest = nmi->exits = nmi->injected = nmi->root = 0;
    nmi->forwarded = nmi->dropped = nmi->unblocked = nmi->backtrace_rip = 0;
    memset(nmi->source, 0, sizeof(nmi->source));
    memset(the_cpu.exits, 0, sizeof(the_cpu.exits));
    the_work.pmis = the_work.counted = 0; /* the model counts them by itself */
}

static void show(void)
{
    machine.passthrough = !(machine.pin & PIN_NMI_EXITING);
    machine.window = machine.primary & PRIMARY_NMI_WINDOW_EXITING;
    machine.sending = the_cpu.nmi.notes & NOTES_SENDING;
    machine.forwarded = the_cpu.nmi.notes & NOTE_FORWARDED;
    machine.fresh = the_cpu.nmi.notes & NOTE_FRESH;
    machine.owed = the_cpu.nmi.notes & NOTE_OWED;
}

int model_run(int who)
{
    struct coroutine *c = &coroutines[who];
    uint8_t *top = stacks[who] + STACK_BYTES;

    running = who;
    /* What other runs left below is no part of this state. */
    memset(stacks[who], 0, STACK_BYTES);
    memcpy(top - c->used, c->stack, c->used);
    switch_stack(&model_stack, top - c->used);
    c->used = (uint32_t)(top - coroutine_stack);
    if (event == E_DONE)
        c->used = 0;
    if (c->used > SAVED_STACK) {
        fprintf(stderr, "run_code.c: %u bytes of stack in use, wanted at most SAVED_STACK\n",
                c->used);
        exit(1);
    }
    memcpy(c->stack, coroutine_stack, c->used);
    memset(c->stack + c->used, 0, SAVED_STACK - c->used);
    forget_statistics();
    show();
    return event;
}

/* ---- the compiler's hooks ---- */
static void access_to(const volatile void *address)
{
    const struct cpu_nmi *nmi = &the_cpu.nmi;

    /* Its own words, which the NMI handler alone can come between. */
    bool own = address == &nmi->hold || address == &nmi->held ||
               address == &the_cpu.pmu.host_work || address == &the_work.counting ||
               address == &the_work.pmis;
    if (address == &nmi->notes || (own && running != CO_NMI))
        stop(E_STEP);
}

static void write_to(const volatile void *address)
{
    const struct cpu_nmi *nmi = &the_cpu.nmi;

    access_to(address);
    if (address == &nmi->source[SOURCE_BACKTRACE].raised)
        stop(E_ASKED);
    if (address == &nmi->backtrace_rip)
        stop(E_ANSWERED);
    if (address == &nmi->due)
        stop(E_DUE);
    if (address == &the_work.pmis)
        stop(E_PMI);
}

#define HOOK(n)                                                                                    \
    void __tsan_read##n(void *a);                                                                  \
    void __tsan_write##n(void *a);                                                                 \
    void __tsan_read##n(void *a) { access_to(a); }                                                 \
    void __tsan_write##n(void *a) { write_to(a); }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
void __tsan_init(void);
void __tsan_init(void) {}

#define ATOMIC(name, ...)                                                                          \
    uint32_t __tsan_atomic32_##name(volatile uint32_t *a, __VA_ARGS__);                            \
    uint32_t __tsan_atomic32_##name(volatile uint32_t *a, __VA_ARGS__)

ATOMIC(load, UNUSED int order)
{
    access_to(a);
    return *a;
}

ATOMIC(fetch_or, uint32_t value, UNUSED int order)
{
    access_to(a);
    uint32_t before = *a;
    *a = before | value;
    return before;
}

ATOMIC(fetch_and, uint32_t value, UNUSED int order)
{
    access_to(a);
    uint32_t before = *a;
    *a = before & value;
    return before;
}

ATOMIC(compare_exchange_strong, uint32_t *expected, uint32_t value, UNUSED int order,
       UNUSED int failure_order)
{
    access_to(a);
    if (*a == *expected) {
        *a = value;
        return 1;
    }
    *expected = *a;
    return 0;
}

/* ---- hardware ---- */
uint64_t vmcs_read_raw(uint32_t field)
{
    switch (field) {
    case VMCS_GUEST_INTERRUPTIBILITY_STATE:
        return machine.interruptibility;
    case VMCS_EXIT_REASON:
        return machine.reason;
    case VMCS_PRIMARY_CONTROLS:
        return machine.primary;
    case VMCS_PIN_BASED_CONTROLS:
        return machine.pin;
    case VMCS_EXIT_INTERRUPTION_INFORMATION:
        return INTERRUPTION_TYPE_NMI << INTERRUPTION_TYPE_SHIFT;
    }
    return 0;
}

void vmcs_write_raw(uint32_t field, uint64_t value)
{
    switch (field) {
    case VMCS_GUEST_INTERRUPTIBILITY_STATE:
        machine.interruptibility = (uint32_t)value;
        break;
    case VMCS_PRIMARY_CONTROLS:
        machine.primary = (uint32_t)value;
        break;
    case VMCS_PIN_BASED_CONTROLS:
        machine.pin = (uint32_t)value;
        break;
    case VMCS_ENTRY_INTERRUPTION_INFORMATION:
        machine.injection = (uint32_t)value;
        stop(E_INJECT);
    }
}

/* A PMI may come before each access to the PMU or LVTPC, in the NMI handler, too. The counter
 * stands still in the handler, and there nobody else changes it. */
static void access_to_counter(void)
{
    if (running != CO_NMI)
        stop(E_STEP);
}

/* Who reads this in a loop waits for a PMI on its way: longer than any takes. */
static uint64_t global_status(void)
{
    stop(E_STEP);
    if (machine.hosts)
        return (machine.host_overflow ? OVERFLOW_0 : 0) |
               (machine.frozen ? GLOBAL_STATUS_CTR_FRZ : 0);
    return machine.overflow ? OVERFLOW_0 : 0;
}

uint64_t rdmsr(uint32_t msr)
{
    uint64_t value;

    switch (msr) {
    case IA32_PERF_GLOBAL_STATUS:
        value = global_status();
        if (running == CO_STAY && value & OVERFLOW_0)
            stop(E_AWAIT);
        return value;
    case IA32_PMC0:
        access_to_counter();
        return (uint64_t)machine.counter & BITS(47, 0);
    }
    return 0xffffffffull << 32; /* a capability: each control may be 0, and may be 1 */
}

void wrmsr(uint32_t msr, uint64_t value)
{
    switch (msr) {
    case IA32_PERF_GLOBAL_CTRL:
        stop(E_STEP);
        machine.counting = value != 0;
        if (running == CO_STAY && value != 0)
            stop(E_WORK);
        break;
    case IA32_PERF_GLOBAL_STATUS_RESET:
        stop(E_STEP);
        if (value & OVERFLOW_0)
            *(machine.hosts ? &machine.host_overflow : &machine.overflow) = false;
        if (value & GLOBAL_STATUS_CTR_FRZ)
            machine.frozen = false;
        break;
    case IA32_A_PMC0:
        access_to_counter();
        machine.counter = (int32_t)value; /* small numbers, some below 0 */
        break;
    case IA32_DEBUGCTL:
        stop(E_STEP);
        machine.freezes = value & DEBUGCTL_FREEZE_PERFMON_ON_PMI;
    }
}

bool model_branch(void)
{
    if (!machine.counting || machine.frozen || ++machine.counter != 0)
        return false;
    machine.host_overflow = true;
    return true;
}

/* Before version 4 a PMI clears the enable bits, since then it sets a bit of the status. */
void model_freeze(void)
{
    if (machine.freezes && machine.legacy)
        machine.counting = false;
    else if (machine.freezes)
        machine.frozen = true;
}

/* The status goes first, then the counters. */
void pmu_context_switch(struct cpu *cpu, UNUSED struct pmu_context *from,
                        const struct pmu_context *to, UNUSED bool whole)
{
    stop(E_STEP);
    if (to == cpu->pmu.guest)
        stop(E_BACK);
    machine.hosts = to == cpu->pmu.host;
    machine.host_overflow = machine.frozen = false;
    stop(E_STEP);
    machine.counter = 0;
}

uint8_t inb(uint16_t port) { return port == NMI_STATUS_PORT && machine.line ? PLATFORM_LINE : 0; }

void outb(uint16_t port, uint8_t value)
{
    if (port == NMI_STATUS_PORT && value & NMI_STATUS_DISABLES) {
        machine.line = false;
        stop(E_PLATFORM);
    }
}

void nmi_unblock(void) { stop(E_UNBLOCK); }

/* Between what went before and the write of the ICR others go on. */
bool apic_send_self_nmi(void)
{
    stop(E_STEP);
    stop(E_SELF_NMI);
    return true;
}

bool apic_send(uint32_t apic_id, uint32_t command)
{
    (void)apic_id;
    (void)command;
    stop(E_STEP);
    stop(E_SEND);
    return true;
}

uint32_t apic_lvtpc_read(void)
{
    stop(E_STEP);
    return LVT_DELIVERY_NMI | (machine.lvtpc_masked ? LVT_MASKED : 0);
}

void apic_lvtpc_write(uint32_t value)
{
    stop(E_STEP);
    machine.lvtpc_masked = value & LVT_MASKED;
}

bool apic_is_software_enabled(void) { return true; }

/* ---- the rest of the hypervisor, as far as nmi/ knows it ---- */
bool pmu_pmi_raised(UNUSED const struct cpu *cpu) { return machine.pmi_raised; }
unsigned branch_records_count_from(UNUSED const struct branch_records *r, UNUSED uint64_t address)
{
    abort();
}
void pmu_freeze_as_guest(UNUSED const struct cpu *cpu) {}
void log_printf(UNUSED const char *format, ...) {}
void processor_end(UNUSED struct cpu *cpu, UNUSED uint64_t rip, UNUSED bool in_root) { abort(); }
void hypervisor_fault(UNUSED const char *format, ...) { abort(); }

void model_start(bool passthrough, bool lazy, bool platform, bool legacy)
{
    static uint8_t guests, hosts; /* two addresses */

    the_cpu.self = &the_cpu;
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, &the_cpu) != 0) /* this_cpu() reads GS:0 */
        abort();
    the_cpu.pmu.guest = (struct pmu_context *)&guests;
    the_cpu.pmu.host = (struct pmu_context *)&hosts;
    machine.legacy = legacy;
    boot.options.policy = passthrough ? POLICY_MSR_NMI : POLICY_MSR;
    boot.options.unblock_lazy = lazy;
    boot.options.platform_nmi_host = platform;
    boot.options.bookkeeping = BOOKKEEPING_ALL;
    boot.options.pmu = true;
    the_cpu.boot = &boot;
    the_cpu.nmi.guest_started = true;
    the_cpu.nmi_stack = BIT(32); /* far from what an NMI interrupts here */
    nmi_setup(&the_cpu, true);
    show();
}

void model_exit(uint32_t reason, bool blocking_by_nmi, bool blocking_by_mov_ss)
{
    machine.reason = reason;
    machine.interruptibility = (uint32_t)((blocking_by_nmi ? BLOCKING_BY_NMI : 0) |
                                          (blocking_by_mov_ss ? BLOCKING_BY_MOV_SS : 0));
    model_begin(CO_STAY);
}

/* Nothing of the stay is read again. */
void model_entered(void)
{
    machine.reason = machine.interruptibility = machine.injection = 0;
    machine.returned = 0;
    machine.pmi_raised = machine.unblocks = false;
    the_cpu.blocking = 0;
}

bool model_blocks(void) { return machine.interruptibility & BLOCKING_BY_NMI; }
