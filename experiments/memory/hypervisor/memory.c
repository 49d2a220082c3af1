/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace records each access by an EPT violation and a single step.
 *
 * There are three maps of the guest's memory. While a processor uses a map, the map changes only to
 * allow more (memory_map_allow_read()). The closed map denies the traced accesses. An instruction
 * that violates the closed map is executed again under the open map, which is the guest's own map.
 * Blocking by MOV SS keeps events from arriving before the instruction. The monitor trap flag
 * causes an exit after the instruction. The half-open map allows reads, so that the trace also sees
 * the write of an instruction that reads and writes.
 *
 * Each map has its own EPT pointer. So no INVEPT is needed, and a step on one processor opens
 * nothing for the other processors. After Schmidt, "Evaluating Techniques for Full System Memory
 * Tracing", section 4.2; SDM Vol. 3, "Monitor Trap Flag"; "Interruptibility State"; "EPT
 * Violations".
 *
 * This file turns the trace on and off, for HYPERCALL_MEMTRACE or memtrace_ms=. This includes the
 * maps, the rows in the table of handlers, and the lent counter of retired instructions.
 */
#include "experiments/memory/hypervisor/memory_event.h"

#include "experiments/shared/hypervisor/cr3.h"
#include "experiment.h"
#include "hypercall.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"

_Static_assert(PMU_NO_COUNTER == TRACE_COUNTER_NONE && PMU_COUNTER_LENT == TRACE_COUNTER_LENT &&
                   PMU_COUNTER_IN_USE == TRACE_COUNTER_GUEST,
               "the ring has the numbers of lend.c");

/* ---- on and off ---- */

static void set_cr3_exiting(bool on)
{
    vmcs_set_primary_controls(PRIMARY_CR3_LOAD_EXITING, on);
    vmcs_write_32(VMCS_CR3_TARGET_COUNT, on ? CR3_TARGETS : 0);
    if (on)
        trace_set_cr3_targets(vmcs_read_natural(VMCS_GUEST_CR3));
}

/* Turns on or off the bit of the exit reason that reports a busy shadow stack. It is on only while
 * the trace's rows are in the table, because the other handlers do not know an exit reason with
 * this bit. */
static void set_busy_reporting(const struct cpu *cpu, bool on)
{
    uint32_t controls = vmcs_read_32(VMCS_EXIT_CONTROLS) & ~(uint32_t)EXIT_SECONDARY_CONTROLS;

    if (!memory_of(cpu)->tells_busy)
        return;
    vmcs_write_raw(VMCS_SECONDARY_EXIT_CONTROLS, on ? EXIT2_PREMATURELY_BUSY : 0);
    vmcs_write_32(VMCS_EXIT_CONTROLS, on ? controls | EXIT_SECONDARY_CONTROLS : controls);
}

static void set_rows(struct cpu *cpu);
static void end_load_of_cr3(struct cpu *cpu);

static void stop_trace(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);

    if (m->mode == MEMTRACE_PAGES)
        memory_pages_stop(cpu);
    m->begun = 0;
    vmcs_write_64(VMCS_EPT_POINTER, m->open);
    if (m->loads_cr3)
        end_load_of_cr3(cpu);
    if (m->cr3 != 0)
        set_cr3_exiting(false);
    trace_remove_rows(cpu);
    set_busy_reporting(cpu, false);
    if (m->counter == TRACE_COUNTER_LENT)
        pmu_give_counter_back(cpu);
    memory_map_leave();
    m->mode = MEMTRACE_OFF;
    trace_of(cpu)->ring->memory = MEMTRACE_OFF;
}

static int64_t start_trace(struct cpu *cpu, uint32_t mode, uint64_t ends)
{
    struct cpu_memory *m = memory_of(cpu);

    m->mode = mode;
    m->ends = ends;
    /* For an instruction that reads and writes, a processor may report only the write. So
     * MEMTRACE_READS records reads and writes, and the reader of the ring leaves out instructions
     * that do not read. */
    m->recorded = mode == MEMTRACE_WRITES ? TRACE_WRITE : TRACE_READ | TRACE_WRITE;
    int64_t result = memory_map_join(cpu);
    if (result != 0) {
        m->mode = MEMTRACE_OFF;
        return result;
    }
    m->counter = mode == MEMTRACE_PAGES ? TRACE_COUNTER_NONE : pmu_lend_counter(cpu);
    if (mode == MEMTRACE_PAGES)
        memory_pages_start(cpu);
    set_rows(cpu);
    set_busy_reporting(cpu, true);
    if (m->cr3 != 0)
        set_cr3_exiting(true);
    memory_exit_setup(cpu);
    memory_select_map(cpu, vmcs_read_natural(VMCS_GUEST_CR3));
    trace_of(cpu)->ring->memory = mode;
    trace_of(cpu)->ring->counter = m->counter;
    return 0;
}

/* Sets the range to trace, widened to whole pages. If `bytes` is 0, the range is all memory.
 * Returns false for a `cr3` that names no page table, and for a range that wraps past the last
 * address. Unless `devices` is set, also returns false for a guest-physical range that begins past
 * the end of memory. */
static bool set_traced_range(struct cpu *cpu, bool devices, uint64_t first, uint64_t bytes,
                             uint64_t cr3)
{
    struct cpu_memory *m = memory_of(cpu);
    uint64_t last = first + (bytes - 1);

    m->cr3 = cr3 == TRACE_THIS_CR3 ? vmcs_read_natural(VMCS_GUEST_CR3) : cr3;
    m->cr3 &= BITS(51, 11);
    if (cr3 != 0 && m->cr3 == 0)
        return false;
    if (bytes == 0) {
        m->first = 0;
        m->bytes = ~0ULL;
        return true;
    }
    m->first = first & ~(PAGE_SIZE - 1);
    m->bytes = (last | (PAGE_SIZE - 1)) - m->first + 1;
    return last >= first && m->bytes != 0 &&
           (m->cr3 != 0 || devices || m->first < cpu->boot->memory_top);
}

/* Returns whether the processor may write records of its own, for branches (BTS), PEBS or Intel PT.
 * If the processor writes such records to a closed page, the exit qualification is undefined. SDM
 * Vol. 3, "Exit Qualification for EPT Violations". */
static bool may_processor_write_records(struct cpu *cpu)
{
    uint64_t pebs, pt;

    if (!(vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTS) &&
        !(pmu_access_register(cpu, IA32_PEBS_ENABLE, &pebs, false) && pebs != 0) &&
        !(pt_access_register(cpu, IA32_RTIT_CTL, &pt, false) && pt & RTIT_CTL_TRACE_EN))
        return false;
    if (may_log_refusal(cpu))
        log_printf(
            "pmuvisor: memory trace: PEBS, BTS or Intel PT is on, wanted all off: their buffer may "
            "be in a closed page; nothing is traced\n");
    return true;
}

/* Returns whether the guest may ask for `mode`. memtrace=all also offers reads and writes, and
 * memtrace=reads also offers writes. memtrace=all and memtrace=reads also offer devices, because
 * their maps can deny reads. If the processor has a page-modification log, they also offer pages,
 * because their maps can have small pages. */
static bool is_mode_offered(const struct cpu_memory *m, uint64_t mode)
{
    bool small = m->most == MEMTRACE_READS || m->most == MEMTRACE_ALL;

    if (mode == MEMTRACE_DEVICES)
        return small || m->most == MEMTRACE_DEVICES;
    if (mode == MEMTRACE_PAGES)
        return m->log != NULL && (small || m->most == MEMTRACE_PAGES);
    return mode == MEMTRACE_OFF || (mode <= m->most && m->most <= MEMTRACE_ALL);
}

static int64_t memory_call(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);
    uint64_t mode = cpu->gpr[GPR_RBX];
    uint32_t was = m->mode;
    int64_t result = 0;

    if (mode != TRACE_ASK && mode > MEMTRACE_PAGES)
        return HYPERCALL_E_ARGUMENT;
    if (mode != TRACE_ASK && (!is_mode_offered(m, mode) || (cpu->gpr[GPR_RSI] != 0 && !m->by_cr3)))
        return HYPERCALL_E_SUPPORT;
    if (mode != TRACE_ASK && was != MEMTRACE_OFF)
        stop_trace(cpu);
    if (mode != TRACE_ASK && mode != MEMTRACE_OFF) {
        if (!set_traced_range(cpu, mode == MEMTRACE_DEVICES, cpu->gpr[GPR_RCX], cpu->gpr[GPR_RDX],
                              cpu->gpr[GPR_RSI])) {
            if (may_log_refusal(cpu))
                log_printf("pmuvisor: memory trace of 0x%lx, %lu bytes: no range of memory, which "
                           "ends at 0x%lx; nothing is traced\n",
                           cpu->gpr[GPR_RCX], cpu->gpr[GPR_RDX], cpu->boot->memory_top);
            return HYPERCALL_E_ARGUMENT;
        }
        if (mode != MEMTRACE_PAGES && may_processor_write_records(cpu))
            return HYPERCALL_E_STATE;
        result = start_trace(cpu, (uint32_t)mode, ~0ULL);
    }
    cpu->gpr[GPR_RBX] = (uint64_t)trace_of(cpu)->ring;
    cpu->gpr[GPR_RCX] = (uint64_t)trace_of(cpu)->end - (uint64_t)trace_of(cpu)->ring;
    return result != 0 ? result : was;
}

/* ---- the rows ---- */

/* The guest executes the MOV again, as with trace=flow. Only the processor knows whether it will
 * refuse the value. So the map changes only at the monitor trap flag's exit after the MOV, whether
 * the MOV succeeded or not. */
static void memory_cr_access(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);

    if (!trace_is_load_of_cr3(qualification)) {
        exit_cr_access(cpu);
        return;
    }
    trace_set_cr3_targets(cr_operand(cpu, qualification));
    memory_of(cpu)->loads_cr3 = true;
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG, true);
    reexecute_instruction();
}

static void end_load_of_cr3(struct cpu *cpu)
{
    memory_of(cpu)->loads_cr3 = false;
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG, false);
}

/* After the MOV, puts the current value of CR3 into the list of CR3 targets. So a load of any other
 * value exits, even if the processor refused that value before. */
static void memory_monitor_trap(struct cpu *cpu)
{
    uint64_t cr3 = vmcs_read_natural(VMCS_GUEST_CR3);

    if (!memory_of(cpu)->loads_cr3) {
        exit_monitor_trap(cpu);
        return;
    }
    end_load_of_cr3(cpu);
    memory_select_map(cpu, cr3);
    trace_set_cr3_targets(cr3);
}

/* After an INIT, a processor may wait for a SIPI forever, so it must not keep the other processors
 * from using another range. With memtrace_ms=, the INIT may have been pending since before the
 * SIPI. Then exit_init() drops the INIT, and the trace goes on. */
static void memory_init(struct cpu *cpu)
{
    if (!cpu->sipi.taken || vmcs_read_natural(VMCS_GUEST_RIP) != 0)
        stop_trace(cpu);
    exit_init(cpu);
}

/* Lets the next entry resume what the exit interrupted: an event's delivery, or the access. */
static void resume_event_or_access(struct cpu *cpu)
{
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);

    if (vectoring & INTERRUPTION_VALID)
        memory_deliver_event_again(cpu, vectoring);
    else
        memory_keep_nmi_blocked(cpu, vmcs_read_natural(VMCS_EXIT_QUALIFICATION));
}

/* With memtrace_ms=, traces until the time is up. After that, the guest tries the access again, or
 * the event is delivered again. */
static void handle_timed_violation(struct cpu *cpu)
{
    if (rdtsc() < memory_of(cpu)->ends) {
        if (memory_of(cpu)->mode == MEMTRACE_DEVICES)
            memory_device_violation(cpu);
        else
            memory_violation(cpu);
        return;
    }
    resume_event_or_access(cpu);
    stop_trace(cpu);
}

/* Empties the processor's full page-modification log. The processor then repeats the access that it
 * was about to log. */
static void handle_full_page_log(struct cpu *cpu)
{
    resume_event_or_access(cpu);
    memory_pages_flush(cpu);
    if (rdtsc() >= memory_of(cpu)->ends)
        stop_trace(cpu);
}

/* If the exit left a shadow stack busy, the exit reason has an extra bit. So the exit was counted
 * under EXIT_REASON_COUNT. Moves this count to the basic reason. */
static void exit_past_table(struct cpu *cpu)
{
    uint64_t basic = vmcs_read_32(VMCS_EXIT_REASON) & ~EXIT_REASON_PREMATURELY_BUSY;

    if (basic < EXIT_REASON_COUNT) {
        cpu->exits[EXIT_REASON_COUNT]--;
        cpu->exits[basic]++;
    }
    memory_exit_other(cpu);
}

static void set_rows(struct cpu *cpu)
{
    exit_handler *row = cpu->handlers, *under = trace_of(cpu)->under;
    struct cpu_memory *m = memory_of(cpu);

    trace_remove_rows(cpu);
    row[EXIT_REASON_INIT_SIGNAL] = memory_init;
    if (m->mode == MEMTRACE_PAGES)
        row[EXIT_REASON_PAGE_MODIFICATION_LOG_FULL] = handle_full_page_log;
    else
        row[EXIT_REASON_EPT_VIOLATION] = m->ends != ~0ULL              ? handle_timed_violation
                                         : m->mode == MEMTRACE_DEVICES ? memory_device_violation
                                                                       : memory_violation;
    if (m->cr3 != 0) {
        row[EXIT_REASON_CR_ACCESS] = memory_cr_access;
        row[EXIT_REASON_MONITOR_TRAP_FLAG] = memory_monitor_trap;
    }
    m->row = under;
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++) {
        under[reason] = row[reason];
        row[reason] = memory_exit_other;
    }
    row[EXIT_REASON_COUNT] = exit_past_table;
    row[EXIT_REASON_EPT_VIOLATION] = memory_exit_write;
    row[EXIT_REASON_MONITOR_TRAP_FLAG] = memory_exit_trap;
}

/* ---- the start ---- */

static bool can_report_busy(const struct vmx_capability *c)
{
    return vmx_allows_control(c, SET_EXIT, EXIT_SECONDARY_CONTROLS) &&
           rdmsr(IA32_VMX_EXIT_CTLS2) & EXIT2_PREMATURELY_BUSY;
}

static bool can_log_pages(const struct vmx_capability *c)
{
    return vmx_allows_control(c, SET_SECONDARY, SECONDARY_ENABLE_PML) &&
           c->ept_vpid & EPT_CAP_ACCESSED_DIRTY;
}

/* If the page-modification log is full at a push to a shadow stack, the exit may leave the stack
 * busy. Root mode then has to free the stack, and needs the linear address of the push. The exit
 * saves this address only if it can report that the stack is busy. Without CET, there are no shadow
 * stacks. SDM Vol. 3, "Basic VM-Exit Information". */
static bool can_log_pages_safely(const struct vmx_capability *c)
{
    return !vmx_allows_control(c, SET_ENTRY, ENTRY_LOAD_CET) || can_report_busy(c);
}

/* Returns what is missing, or NULL if nothing is missing. */
static const char *find_missing_feature(const struct vmx_capability *c, uint64_t top, bool can_trap)
{
    if (top > EPT_COPY_HOST_LIMIT)
        return "memory above 64 TiB";
    if (!can_trap)
        return "no NMI exiting with virtual NMIs";
    if (ring_options.memory == MEMTRACE_PAGES && !can_log_pages(c))
        return "no page-modification logging (IA32_VMX_PROCBASED_CTLS2 bit 49, "
               "IA32_VMX_EPT_VPID_CAP bit 21)";
    if (ring_options.memory == MEMTRACE_PAGES && !can_log_pages_safely(c))
        return "CET without \"prematurely busy shadow stack\" (IA32_VMX_EXIT_CTLS2 bit 3 is 0): "
               "memtrace=writes needs none";
    if (ring_options.memory != MEMTRACE_WRITES && ring_options.memory != MEMTRACE_PAGES &&
        !(c->ept_vpid & EPT_CAP_EXECUTE_ONLY))
        return "no execute-only pages (IA32_VMX_EPT_VPID_CAP bit 0 is 0): memtrace=writes needs "
               "none";
    return NULL;
}

static void start_timed_trace(struct cpu *cpu)
{
    if (memory_options.ms == 0)
        return;
    if (cpu->tsc_khz == 0) {
        log_printf("pmuvisor: memtrace_ms=%u: the TSC's frequency is not known; the guest has to "
                   "ask for the memory trace\n",
                   memory_options.ms);
        return;
    }
    (void)set_traced_range(cpu, false, 0, 0, 0);
    if (start_trace(cpu, ring_options.memory,
                    rdtsc() + (uint64_t)memory_options.ms * cpu->tsc_khz) != 0)
        log_printf("pmuvisor: memtrace_ms=%u: not enough pages for the maps; nothing is traced\n",
                   memory_options.ms);
}

static const char *const mode_names[] = {[MEMTRACE_WRITES] = "writes",
                                         [MEMTRACE_READS] = "reads",
                                         [MEMTRACE_ALL] = "all accesses",
                                         [MEMTRACE_DEVICES] = "accesses to devices",
                                         [MEMTRACE_PAGES] = "written pages"};

void memory_setup(struct cpu *cpu, const struct vmx_capability *c)
{
    const char *lack = find_missing_feature(c, cpu->boot->memory_top, cpu->nmi.can_trap);
    uint64_t targets = (c->misc & VMX_MISC_CR3_TARGETS) >> VMX_MISC_CR3_TARGETS_SHIFT;
    bool first = cpu == get_cpu_by_index(0);

    if (ring_options.memory == MEMTRACE_OFF)
        return;
    if (ring_options.exits != TRACE_OFF) {
        if (first)
            log_printf(
                "pmuvisor: memtrace= is left out: there is a trace of exits, and one ring\n");
        return;
    }
    if (!ring_setup(cpu))
        return;
    if (first)
        log_printf("pmuvisor: memory trace of %s: a ring of %lu MiB for each processor, read-only "
                   "for the guest\n",
                   mode_names[ring_options.memory], ring_mib());
    if (lack == NULL && !memory_map_setup(cpu))
        lack = "not enough pages for the maps";
    if (lack != NULL) {
        log_printf("pmuvisor: memtrace: found %s; the guest goes on without a memory trace\n",
                   lack);
        return;
    }
    memory_of(cpu)->most = ring_options.memory;
    memory_of(cpu)->by_cr3 = targets >= CR3_TARGETS;
    memory_of(cpu)->tells_busy = can_report_busy(c);
    memory_of(cpu)->log = can_log_pages(c) && can_log_pages_safely(c) ? page_alloc(1) : NULL;
    memory_of(cpu)->open = vmcs_read_64(VMCS_EPT_POINTER);
    memory_step_setup();
    memory_event_setup();
    memory_device_setup();
    for (unsigned i = 0; i < CODE_PAGES; i++)
        memory_of(cpu)->code[i].linear = 1; /* matches no page */
    hypercall_offer(cpu, HYPERCALL_MEMTRACE, memory_call);
    start_timed_trace(cpu);
}
