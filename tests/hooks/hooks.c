/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Hypercalls of the test build: host NMIs as another processor would raise them, the counts of the
 * NMI sources, and faults in root mode.
 */
#include "experiment.h"

#include "hypercall.h"
#include "nmi/nmi.h"
#include "tests/hooks/hooks.h"
#include "tests/hooks/other_guest.h"
#include "vmx/cpu.h"
#include "vmx/exit/outcome.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"
#include "x86.h"

#define GATE_BYTES 16
#define GATE_TYPE 5 /* offset */
#define DEEPER_THAN_ANY_STACK 1000000

enum fault_kind {
    FAULT_INVALID_OPCODE,
    FAULT_STACK_OVERFLOW,
    FAULT_WRITE_TO_CODE,
    FAULT_REPORT,
    FAULT_DOUBLE,
    FAULT_MACHINE_CHECK,
    FAULT_GUEST_STATE
};

static int64_t test_request_word(struct cpu *cpu)
{
    if (cpu->gpr[GPR_RBX] == TEST_SENDER_DONE)
        __atomic_fetch_and(&cpu->nmi.notes, ~NOTE_SENDING(SOURCE_BACKTRACE), __ATOMIC_RELEASE);
    cpu->gpr[GPR_RBX] = NOTE_ASKED(SOURCE_BACKTRACE);
    cpu->gpr[GPR_RCX] = NOTE_ASKED(SOURCE_BACKTRACE) | NOTE_SENDING(SOURCE_BACKTRACE);
    return (int64_t)&cpu->nmi.notes;
}

/* The processor that an argument names: 0 the guest's own, n the one with index n - 1. NULL: none.
 */
static struct cpu *named(struct cpu *cpu, uint64_t number)
{
    if (number == 0)
        return cpu;
    return number <= processors.count ? get_cpu_by_index((uint32_t)number - 1) : NULL;
}

static int64_t test_backtrace(struct cpu *cpu)
{
    struct cpu *target = named(cpu, cpu->gpr[GPR_RBX]);

    if (target == NULL)
        return HYPERCALL_E_ARGUMENT;
    return nmi_request_backtrace(target) ? 0 : HYPERCALL_E_STATE;
}

static int64_t test_source(struct cpu *cpu)
{
    uint64_t source = cpu->gpr[GPR_RBX] & HYPERCALL_TEST_SOURCE_MASK;
    const struct cpu *of = named(cpu, cpu->gpr[GPR_RBX] >> HYPERCALL_TEST_PROCESSOR_SHIFT);

    if (source >= SOURCE_COUNT || of == NULL)
        return HYPERCALL_E_ARGUMENT;
    const struct nmi_source_count *count = &of->nmi.source[source];
    cpu->gpr[GPR_RBX] = count->found[FOUND_LATE];
    cpu->gpr[GPR_RCX] = count->found[FOUND_RETURNED];
    cpu->gpr[GPR_RDX] = count->raised;
    return (int64_t)count->found[FOUND_IN_ROOT];
}

static int64_t test_msr(struct cpu *cpu)
{
    return rdmsr_safe((uint32_t)cpu->gpr[GPR_RBX], &cpu->gpr[GPR_RBX]) ? 0 : HYPERCALL_E_ARGUMENT;
}

/* Deeper than any stack, and not to be turned into a loop: the guard page has to end it. */
static __attribute__((noinline)) uint64_t overflow_stack(uint64_t depth)
{
    volatile uint64_t here[64] = {depth};

    if (depth == DEEPER_THAN_ANY_STACK)
        return 0;
    return overflow_stack(depth + 1) + here[depth % 64];
}

/* #GP instead of #UD, for a gate of no type, and #GP again while that is delivered. */
static __attribute__((noinline)) void fault_twice(void)
{
    struct {
        uint16_t limit;
        uint8_t *base;
    } __attribute__((packed)) idtr;

    __asm__ volatile("sidt %0" : "=m"(idtr));
    idtr.base[VECTOR_UD * GATE_BYTES + GATE_TYPE] = 0;
    idtr.base[VECTOR_GP * GATE_BYTES + GATE_TYPE] = 0;
    __asm__ volatile("int %0" : : "i"(VECTOR_UD));
}

/* For ever, at a place that the linker's map has. */
static int64_t test_spin(struct cpu *cpu)
{
    (void)cpu;
    __asm__ volatile(".globl test_spin_place\n"
                     "test_spin_place: 1: jmp 1b");
    return 0;
}

static int64_t test_fault(struct cpu *cpu)
{
    switch (cpu->gpr[GPR_RBX]) {
    case FAULT_INVALID_OPCODE:
        __asm__ volatile("ud2");
        __builtin_unreachable();
    case FAULT_STACK_OVERFLOW:
        return (int64_t)overflow_stack(0);
    case FAULT_WRITE_TO_CODE:
        *(volatile uint8_t *)(uint64_t)test_fault = 0;
        break;
    case FAULT_REPORT:
        hypervisor_fault("asked for by the guest");
    case FAULT_DOUBLE:
        fault_twice();
        break;
    case FAULT_MACHINE_CHECK:
        __asm__ volatile("int %0" : : "i"(VECTOR_MC));
        break;
    case FAULT_GUEST_STATE:
        vmcs_write_natural(VMCS_GUEST_RFLAGS, 0); /* bit 1 is always 1 */
    }
    return HYPERCALL_E_ARGUMENT;
}

static int64_t test_trace(struct cpu *cpu)
{
    vmcs_write_64(VMCS_GUEST_IA32_RTIT_CTL, cpu->gpr[GPR_RBX]);
    inject_event(INTERRUPTION_VALID | INTERRUPTION_TYPE_NMI << INTERRUPTION_TYPE_SHIFT | VECTOR_NMI,
                 0);
    return 0;
}

static void offer(struct cpu *cpu, UNUSED const struct vmx_capability *c)
{
    hypercall_offer(cpu, HYPERCALL_TEST_REQUEST_WORD, test_request_word);
    hypercall_offer(cpu, HYPERCALL_TEST_BACKTRACE, test_backtrace);
    hypercall_offer(cpu, HYPERCALL_TEST_SOURCE, test_source);
    hypercall_offer(cpu, HYPERCALL_TEST_OTHER_GUEST, test_other_guest);
    hypercall_offer(cpu, HYPERCALL_TEST_FAULT, test_fault);
    hypercall_offer(cpu, HYPERCALL_TEST_MSR, test_msr);
    hypercall_offer(cpu, HYPERCALL_TEST_SPIN, test_spin);
    hypercall_offer(cpu, HYPERCALL_TEST_TRACE, test_trace);
}

/* They come as those of an experiment do. */
static const struct experiment hooks = {.name = "hooks", .setup = offer};
EXPERIMENT(hooks);
