/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Virtual interrupts of the guest of emulator_vmx.h: their delivery, EOI, priority
 * and self-IPI virtualization, and posted interrupts (testbed/patches/26 and 27). SDM Vol. 3, "APIC
 * Virtualization and Virtual Interrupts". The local APIC is in x2APIC mode.
 */
#include "emulator_vmx.h"

#define X2APIC_ISR 0x810
#define X2APIC_LVT_TIMER 0x832
#define X2APIC_TIMER_INITIAL 0x838
#define VTPR 0x080
#define VPPR 0x0a0
#define VISR 0x100
#define VIRR 0x200

#define NOTIFY 0x70u
#define OTHER 0x71u
/* Two virtual interrupts of different priority classes. */
#define LOW 0x52u
#define HIGH 0x63u
/* Ticks until the local APIC's timer fires, and until the preemption timer does. */
#define SOON 2000u
#define LATER 1000000u
#define LOG_SIZE 8

static uint8_t virtual_apic[4096] __attribute__((aligned(4096)));
/* The test uses the second of two descriptors in one page. */
static struct descriptor {
    uint32_t requests[8];
    uint32_t on, unused[7];
} descriptors[2] __attribute__((aligned(128)));
#define DESCRIPTOR (&descriptors[1])
/* Bit 0 is ON. The processor leaves the other bits unchanged. */
#define ON 1u
#define OTHERS_BITS 0x5a5a5a5au

/* The guest's interrupts in order, and the number of notifications that interrupted the host. */
static volatile struct {
    unsigned vector;
    uint64_t rip;
} came[LOG_SIZE];
static volatile unsigned arrivals, host_notifications, not_present;
static volatile uint64_t after_halt;
/* The guest's RIP and RSP after its last VMCALL. */
static uint64_t home_rip, home_rsp;

static void arrive(struct trap_frame *frame)
{
    if (arrivals < LOG_SIZE) {
        came[arrivals].vector = (unsigned)frame->vector;
        came[arrivals].rip = frame->rip;
    }
    arrivals++;
    apic_eoi();
}

static void on_notify(struct trap_frame *frame UNUSED)
{
    host_notifications++;
    apic_eoi();
}

static void on_not_present(struct trap_frame *frame UNUSED) { not_present++; }

static volatile uint32_t *virtual_register(uint32_t offset)
{
    return (volatile uint32_t *)(void *)(virtual_apic + offset);
}

static volatile uint32_t *vector_word(uint32_t base, unsigned vector)
{
    return virtual_register(base + vector / 32 * 16);
}

static void request(unsigned vector) { *vector_word(VIRR, vector) |= 1u << vector % 32; }

static void post(unsigned vector)
{
    DESCRIPTOR->requests[vector / 32] |= 1u << vector % 32;
    DESCRIPTOR->on |= ON;
}

/* Bits 7:0 are RVI, bits 15:8 are SVI. */
static void set_status(uint64_t status) { vmcs_write_raw(VMCS_GUEST_INTERRUPT_STATUS, status); }

static uint64_t status(void) { return vmcs_read_raw(VMCS_GUEST_INTERRUPT_STATUS); }

/* Requests a vector and makes it RVI. */
static void request_next(unsigned vector)
{
    request(vector);
    set_status(vector);
}

static void preemption_timer(bool on)
{
    vmx_set(VMCS_PIN_BASED_CONTROLS, PIN_PREEMPTION_TIMER, on);
    vmcs_write_raw(VMCS_PREEMPTION_TIMER_VALUE, LATER);
}

/* Clears all requests and arrivals, and puts the guest back to where it was. */
static void clean(const char *what, bool interrupts)
{
    check_about("virtual interrupts: ", what);
    for (unsigned n = 0; n < sizeof(virtual_apic); n++)
        virtual_apic[n] = 0;
    descriptors[1] = (struct descriptor){.on = OTHERS_BITS};
    arrivals = host_notifications = not_present = 0;
    after_halt = 0;
    set_status(0);
    vmcs_write_raw(VMCS_GUEST_RIP, home_rip);
    vmcs_write_raw(VMCS_GUEST_RSP, home_rsp);
    vmcs_write_raw(VMCS_GUEST_RFLAGS, RFLAGS_FIXED | (interrupts ? RFLAGS_IF : 0));
    vmcs_write_raw(VMCS_GUEST_INTERRUPTIBILITY_STATE, 0);
    vmcs_write_raw(VMCS_GUEST_ACTIVITY_STATE, 0);
    for (unsigned n = 0; n < 4; n++)
        vmcs_write_raw(VMCS_EOI_EXIT_BITMAP + 2 * n, 0);
    preemption_timer(false);
}

static void check_arrivals(unsigned first, unsigned second)
{
    unsigned count = (first != 0) + (second != 0);

    check_equal("virtual interrupts", arrivals, count);
    if (count > 0)
        check_equal("the first", came[0].vector, first);
    if (count > 1)
        check_equal("the second", came[1].vector, second);
}

static void check_run(void (*job)(void), uint64_t reason)
{
    check_equal("exit reason", vmx_run(job), reason);
}

static void job_nothing(void) {}

static void job_enable(void) { open_interrupts(); }

static void job_self_ipi(void)
{
    wrmsr(X2APIC_SELF_IPI, LOW);
    wrmsr(X2APIC_SELF_IPI, HIGH);
    open_interrupts();
}

static void job_lower_priority(void)
{
    uint64_t none = 0;

    check_equal("none below the priority", arrivals, 0);
    __asm__ volatile("mov %0, %%cr8" : : "r"(none) : "memory");
}

static void job_halt(void)
{
    __asm__ volatile("sti; hlt; movq $1, %0" : "=m"(after_halt) : : "memory");
}

static void job_halt_for_good(void)
{
    __asm__ volatile("cli; hlt; movq $1, %0" : "=m"(after_halt) : : "memory");
}

static void check_controls(void)
{
    uint64_t address = fuzz_physical(DESCRIPTOR);

    clean("checks: ", false);
    check_that("the descriptor is not at a page", (address & 0xfff) != 0);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    for (unsigned bit = 0; bit < 6; bit++) {
        vmcs_write_raw(VMCS_POSTED_DESCRIPTOR, address | BIT(bit));
        check_equal("a descriptor out of line", vmx_refusal(job_nothing), ERROR_CONTROLS);
    }
    vmcs_write_raw(VMCS_POSTED_DESCRIPTOR, address | BIT(52));
    check_equal("a descriptor out of reach", vmx_refusal(job_nothing), ERROR_CONTROLS);
    vmcs_write_raw(VMCS_POSTED_DESCRIPTOR, address);
    vmcs_write_raw(VMCS_POSTED_VECTOR, 0x100 | NOTIFY);
    check_equal("a vector of nine bits", vmx_refusal(job_nothing), ERROR_CONTROLS);
    vmcs_write_raw(VMCS_POSTED_VECTOR, NOTIFY);
    vmx_set(VMCS_EXIT_CONTROLS, EXIT_ACKNOWLEDGE_INTERRUPT, false);
    check_equal("without acknowledging at exits", vmx_refusal(job_nothing), ERROR_CONTROLS);
    vmx_set(VMCS_EXIT_CONTROLS, EXIT_ACKNOWLEDGE_INTERRUPT, true);
    check_run(job_nothing, EXIT_REASON_VMCALL);
}

/* Checks interrupts that are requested before the entry. */
static void check_delivery(void)
{
    clean("at the entry: ", true);
    request(LOW);
    request_next(HIGH);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(HIGH, LOW);
    check_equal("before any instruction", came[0].rip, home_rip);
    check_equal("the status", status(), 0);
    check_equal("none requested", *vector_word(VIRR, LOW) | *vector_word(VIRR, HIGH), 0);
    check_equal("none in service", *vector_word(VISR, LOW) | *vector_word(VISR, HIGH), 0);

    clean("IF = 0: ", false);
    request_next(LOW);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(0, 0);
    check_equal("the status", status(), LOW);
    /* A host interrupt exits all the same. */
    wrmsr(X2APIC_SELF_IPI, OTHER);
    check_run(job_nothing, EXIT_REASON_EXTERNAL_INTERRUPT);
    check_equal("the host's interrupt", vmcs_read_raw(VMCS_EXIT_INTERRUPTION_INFORMATION),
                INTERRUPTION_VALID | OTHER);
    apic_eoi();
    check_arrivals(0, 0);
    check_equal("and the status stays", status(), LOW);
    check_run(job_enable, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);

    clean("blocked by STI: ", true);
    request_next(LOW);
    vmcs_write_raw(VMCS_GUEST_INTERRUPTIBILITY_STATE, BIT(0));
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);
    check_that("after an instruction", came[0].rip != home_rip);

    clean("the interrupt window: ", true);
    request_next(LOW);
    vmx_set(VMCS_PRIMARY_CONTROLS, PRIMARY_INTERRUPT_WINDOW, true);
    check_run(job_nothing, EXIT_REASON_INTERRUPT_WINDOW);
    check_arrivals(0, 0);
    vmx_set(VMCS_PRIMARY_CONTROLS, PRIMARY_INTERRUPT_WINDOW, false);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);
}

static void check_priority(void)
{
    clean("the task's priority: ", true);
    *virtual_register(VTPR) = LOW;
    request_next(LOW);
    check_run(job_lower_priority, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);
    check_equal("the processor's priority", *virtual_register(VPPR), 0);

    clean("one in service: ", true);
    *vector_word(VISR, HIGH) = 1u << HIGH % 32;
    request(LOW);
    set_status(HIGH << 8 | LOW);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(0, 0);
    check_equal("the processor's priority", *virtual_register(VPPR), HIGH & 0xf0);
    check_equal("the status", status(), HIGH << 8 | LOW);

    clean("self-IPI: ", false);
    check_run(job_self_ipi, EXIT_REASON_VMCALL);
    check_arrivals(HIGH, LOW);
}

static void check_eoi(void)
{
    clean("EOI-exit bitmap: ", true);
    vmcs_write_raw(VMCS_EOI_EXIT_BITMAP + 2 * (LOW / 64), BIT(LOW % 64));
    request(LOW);
    request_next(HIGH);
    check_run(job_nothing, EXIT_REASON_VIRTUALIZED_EOI);
    check_equal("the vector", vmcs_read_raw(VMCS_EXIT_QUALIFICATION), LOW);
    check_arrivals(HIGH, LOW);
    check_equal("none in service", status(), 0);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(HIGH, LOW);
}

/* The delivery of a virtual interrupt exits; an entry's own event faults. */
static void check_faults(void)
{
    clean("an exit from the delivery: ", true);
    request_next(LOW);
    cpu_gate_present(LOW, false);
    vmcs_write_raw(VMCS_EXCEPTION_BITMAP, BIT(VECTOR_NP));
    check_run(job_nothing, EXIT_REASON_EXCEPTION_OR_NMI);
    check_equal("IDT-vectoring information", vmcs_read_raw(VMCS_IDT_VECTORING_INFORMATION),
                INTERRUPTION_VALID | LOW);
    check_equal("the status", status(), LOW << 8);
    vmcs_write_raw(VMCS_EXCEPTION_BITMAP, 0);
    cpu_gate_present(LOW, true);

    clean("an injected event that faults: ", true);
    request_next(LOW);
    cpu_gate_present(OTHER, false);
    vmcs_write_raw(VMCS_ENTRY_INTERRUPTION_INFORMATION, INTERRUPTION_VALID | OTHER);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_equal("the fault", not_present, 1);
    check_arrivals(LOW, 0);
    cpu_gate_present(OTHER, true);
}

static void check_posted(void)
{
    clean("posted: ", true);
    post(LOW);
    post(HIGH);
    wrmsr(X2APIC_SELF_IPI, NOTIFY);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(HIGH, LOW);
    check_equal("ON alone is clear", DESCRIPTOR->on, OTHERS_BITS);
    check_equal("no requests", DESCRIPTOR->requests[LOW / 32] | DESCRIPTOR->requests[HIGH / 32], 0);
    check_equal("the notification is over", rdmsr(X2APIC_ISR + NOTIFY / 32), 0);
    check_equal("and was no interrupt", host_notifications, 0);

    clean("posted with IF = 0: ", false);
    post(LOW);
    request_next(HIGH);
    wrmsr(X2APIC_SELF_IPI, NOTIFY);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(0, 0);
    check_equal("the higher one stays", status(), HIGH);
    check_run(job_enable, EXIT_REASON_VMCALL);
    check_arrivals(HIGH, LOW);

    clean("nothing posted: ", false);
    wrmsr(X2APIC_SELF_IPI, NOTIFY);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_equal("none is requested", status(), 0);
    request(LOW);
    wrmsr(X2APIC_SELF_IPI, NOTIFY);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_equal("nor one of VIRR alone", status(), 0);

    clean("another vector: ", true);
    post(LOW);
    wrmsr(X2APIC_SELF_IPI, OTHER);
    check_run(job_nothing, EXIT_REASON_EXTERNAL_INTERRUPT);
    apic_eoi();
    check_equal("ON stays", DESCRIPTOR->on, OTHERS_BITS | ON);

    clean("in root mode: ", true);
    post(LOW);
    wrmsr(X2APIC_SELF_IPI, NOTIFY);
    open_interrupts();
    check_equal("an interrupt as any", host_notifications, 1);
    check_equal("ON stays", DESCRIPTOR->on, OTHERS_BITS | ON);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(0, 0);
}

/* Sends the vector while the guest is halted. */
static void timer(unsigned vector)
{
    preemption_timer(true);
    wrmsr(X2APIC_LVT_TIMER, vector);
    wrmsr(X2APIC_TIMER_INITIAL, SOON);
}

static void check_halted(void)
{
    clean("posted to a halted guest: ", false);
    post(LOW);
    timer(NOTIFY);
    check_run(job_halt, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);
    check_equal("it is awake", after_halt, 1);

    clean("a notification of nothing: ", false);
    timer(NOTIFY);
    check_run(job_halt, EXIT_REASON_PREEMPTION_TIMER);
    check_equal("it has come",
                vmcs_read_raw(VMCS_GUEST_ACTIVITY_STATE) << 8 | (DESCRIPTOR->on & 0xff),
                ACTIVITY_HLT << 8 | (OTHERS_BITS & 0xff & ~ON));
    check_equal("it sleeps on", after_halt, 0);

    clean("halted with IF = 0: ", false);
    post(LOW);
    timer(NOTIFY);
    check_run(job_halt_for_good, EXIT_REASON_PREEMPTION_TIMER);
    check_equal("it is processed", status(), LOW);
    check_equal("it sleeps on", after_halt, 0);
    timer(OTHER);
    check_run(job_nothing, EXIT_REASON_EXTERNAL_INTERRUPT);
    apic_eoi();

    clean("entered halted: ", true);
    request_next(LOW);
    vmcs_write_raw(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
    preemption_timer(true);
    check_run(job_nothing, EXIT_REASON_VMCALL);
    check_arrivals(LOW, 0);
    wrmsr(X2APIC_LVT_TIMER, LVT_MASKED);
}

static void controls(bool on)
{
    vmx_set(VMCS_PIN_BASED_CONTROLS, PIN_EXTERNAL_INTERRUPT_EXITING | PIN_POSTED, on);
    vmx_set(VMCS_PRIMARY_CONTROLS, PRIMARY_TPR_SHADOW | PRIMARY_SECONDARY_CONTROLS, on);
    vmx_set(VMCS_SECONDARY_CONTROLS, SECONDARY_OF_VIRTUAL_APIC, on);
    vmx_set(VMCS_EXIT_CONTROLS, EXIT_ACKNOWLEDGE_INTERRUPT, on);
}

void emulator_virtual(void)
{
    vmx_begin();
    check_that("x2APIC mode", apic_enter_x2());
    handle(LOW, arrive);
    handle(HIGH, arrive);
    handle(NOTIFY, on_notify);
    handle(VECTOR_NP, on_not_present);
    home_rip = vmcs_read_raw(VMCS_GUEST_RIP);
    home_rsp = vmcs_read_raw(VMCS_GUEST_RSP);
    vmcs_write_raw(VMCS_VIRTUAL_APIC, fuzz_physical(virtual_apic));
    vmcs_write_raw(VMCS_POSTED_DESCRIPTOR, fuzz_physical(DESCRIPTOR));
    vmcs_write_raw(VMCS_POSTED_VECTOR, NOTIFY);
    controls(true);
    check_controls();
    check_delivery();
    check_priority();
    check_eoi();
    check_faults();
    check_posted();
    check_halted();
    clean("", false);
    controls(false);
}
