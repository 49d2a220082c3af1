/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of the memory trace share: the state of a processor, and the functions by which
 * one file uses another. memory.c says how the trace works.
 */
#pragma once

#include "experiments/memory/hypervisor/ept_copy.h"
#include "experiments/memory/hypervisor/registers.h"
#include "experiments/shared/hypervisor/ring.h"
#include "pmu/pmu.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/exit/exit.h"

/* A page of the guest's code, found through the guest's page tables. */
struct code_page {
    uint64_t cr3;                   /* the address space */
    uint64_t linear;                /* the page's linear address */
    const volatile uint64_t *entry; /* the entry that maps the page */
    uint64_t value;                 /* value of the entry when the page was found */
    const uint8_t *bytes;           /* the code, at its address in root mode */
    uint64_t unused[3];             /* makes the size a power of two, so indexing is a shift */
};
#define CODE_PAGES 16

/* The state of the memory trace on one processor. */
struct cpu_memory {
    const exit_handler *row; /* handlers for the next exit */
    uint32_t stage;          /* STAGE_* below: what the next exit may be */
    bool plain;              /* memory_exit.c may handle exits by itself */
    bool by_exits;       /* exits keep events away from this step, as with memtrace_step=exits */
    uint64_t closed;     /* EPT pointer of the map that denies the traced accesses */
    uint64_t half_open;  /* EPT pointer of the map that denies only writes */
    uint64_t open;       /* EPT pointer of the guest's own map, which denies nothing */
    uint32_t primary;    /* primary processor-based controls outside a step */
    uint32_t stepping;   /* primary processor-based controls in a step of the fast path */
    uint32_t exceptions; /* exception bitmap outside a step, the same as without a trace */
    uint32_t step_exceptions; /* exception bitmap during a step */
    uint32_t mode;            /* current MEMTRACE_* */
    uint32_t most;            /* the most that the guest may ask for, as MEMTRACE_* */
    bool by_cr3;              /* a range may be limited to one process */
    bool tells_busy;          /* the exit reason reports a shadow stack that the exit left busy */
    uint64_t *log;            /* page-modification log; NULL: the processor has none */
    uint64_t recorded;        /* TRACE_READ, TRACE_WRITE: kinds of access to record */
    uint64_t first;           /* start of the range; all memory: 0 */
    uint64_t bytes;           /* length of the range; all memory: ~0 */
    uint64_t cr3;             /* CR3 under which the range is guest-linear; 0: guest-physical */
    bool loads_cr3;           /* the guest is executing a MOV to CR3 again (memory.c) */
    uint32_t begun;           /* number of records whose instruction has not retired yet */
    uint32_t event;           /* interruption information of the event being delivered again */
    uint64_t event_gla;       /* linear address that the event's delivery accessed */
    uint64_t event_gpa;       /* guest-physical address that the event's delivery accessed */
    uint64_t walked;    /* address of the entry that the last walk had to change (memory_walk.c) */
    uint64_t walked_at; /* number of EPT violations up to that walk */
    uint64_t rsi;       /* RSI before the step */
    uint64_t ends;      /* TSC at which the trace ends; ~0: when the guest says so */
    uint32_t counter;   /* TRACE_COUNTER_* */
    struct pmu_loan {
        uint64_t value; /* the guest's value of IA32_FIXED_CTR0 */
        bool enabled;   /* IA32_PERF_GLOBAL_CTRL enabled the counter */
    } loan;
    struct code_page code[CODE_PAGES];
};
_Static_assert(sizeof(struct cpu_memory) <= FILLER_BYTES, "it lies with the ring's state");
static inline struct cpu_memory *memory_of(const struct cpu *cpu)
{
    return (struct cpu_memory *)trace_of(cpu)->filler;
}

/* The options other than the mode, which is in ring_options. */
struct memory_options {
    bool exits;  /* memtrace_step=exits: interrupts and NMIs exit during a step */
    uint32_t ms; /* trace all memory for this time from the start; 0: wait for the hypercall */
};
extern struct memory_options memory_options;

/* ---- memory.c ---- */

/* Sets up this processor's ring, offers HYPERCALL_MEMTRACE, and starts the trace for memtrace_ms=.
 * Runs on the processor itself. If something is missing, a log line says what, and the guest runs
 * without the trace. */
void memory_setup(struct cpu *cpu, const struct vmx_capability *c);

/* ---- memory_map.c ---- */

/* Returns the number of pages that the options need from the pool. The guest's own map has `tables`
 * pages. */
uint64_t memory_map_pages(const struct boot_info *bi, uint64_t tables);
/* On the first call, takes these pages from the pool and gives root mode access to the memory that
 * the guest may write. Returns false if these pages are used up. */
bool memory_map_setup(const struct cpu *cpu);
/* Makes the maps for this processor's mode and range, or joins the processors that already use such
 * maps. Returns 0 and sets the map pointers. Returns HYPERCALL_E_STATE if other processors use
 * other maps, or HYPERCALL_E_SUPPORT if the maps need more pages than there are. */
int64_t memory_map_join(struct cpu *cpu);
void memory_map_leave(void);
/* Returns root mode's address of memory that the guest may write, or NULL if the guest may not
 * write that memory. */
void *memory_find_guest(const struct cpu *cpu, uint64_t physical);
/* Like memory_find_guest(), for memory that must belong to the guest, because the guest has just
 * accessed it. */
static inline void *memory_host_address(uint64_t physical)
{
    return (void *)(EPT_COPY_HOST_LIMIT + physical);
}
/* Makes the closed map allow reads of the page from now on, because page walks read the page.
 * Returns false if the map already allowed reads. */
bool memory_map_allow_read(struct cpu *cpu, uint64_t physical);

/* ---- memory_record.c ---- */

/* Translates a linear address as the guest does at this moment. Returns false if there is no
 * translation. Stores the address of the entry that maps the page in `entry`, unless `entry` is
 * NULL. */
bool memory_translate(struct cpu *cpu, uint64_t linear, uint64_t *physical, uint64_t *entry);
/* Returns which role the entry at `address` has in the translation of a linear address. */
enum memory_entry { ENTRY_OF_ANOTHER, ENTRY_ON_WAY, ENTRY_LAST };
enum memory_entry memory_entry_of(struct cpu *cpu, uint64_t linear, uint64_t address);
/* Returns whether the access lies in the range. */
static inline bool memory_is_traced(const struct cpu *cpu, uint64_t gla, uint64_t gpa)
{
    return (memory_of(cpu)->cr3 != 0 ? gla : gpa) - memory_of(cpu)->first < memory_of(cpu)->bytes;
}

/* ---- the exits ---- */

/* The exit that memory_exit.c can handle by itself, if it comes next. */
enum memory_stage {
    STAGE_WHOLE,   /* none: memory_violation.c handles any exit */
    STAGE_CLOSED,  /* an EPT violation by an instruction's write */
    STAGE_STEPPED, /* the monitor trap flag after that instruction */
};
/* memory_exit.c: the handlers that exits reach first while something is traced. One handles EPT
 * violations, one the monitor trap flag, and one all other exits. */
exit_function memory_exit_write, memory_exit_trap, memory_exit_other;
/* Reads the controls that steps change, and decides whether memory_exit.c may handle exits by
 * itself. Call this function when the trace begins and when the controls may have changed. */
void memory_exit_setup(struct cpu *cpu);
/* Exceptions that end a step. In a step #DB is a trap, and comes after the step. A machine check
 * belongs to the guest, as without a trace. */
#define STEP_EXCEPTIONS (~(uint32_t)(BIT(VECTOR_DB) | BIT(VECTOR_MC)))
/* Returns whether the exception exits even without a trace. If so, the trace passes the exception
 * to the handler that the trace's row replaced. */
static inline bool memory_always_exits(const struct cpu *cpu, uint32_t information)
{
    return BIT(information & INTERRUPTION_VECTOR) & memory_of(cpu)->exceptions;
}

/* ---- memory_step.c ---- */

/* Gives the guest the closed map, or the open map if the range belongs to one process and CR3 to
 * another. */
void memory_select_map(struct cpu *cpu, uint64_t cr3);
/* Records an instruction's own access and begins the step, whose exits `row` handles. `flags` are
 * the record's flags in addition to those of the access. */
void memory_step_instruction(struct cpu *cpu, uint64_t qualification, uint32_t flags, uint64_t gla,
                             uint64_t gpa, const exit_handler *row);
/* memory_begin_step() begins a step under `map`. `row` has the handlers for the exits of the step.
 * memory_end_step() ends the step and restores the closed map. */
void memory_begin_step(struct cpu *cpu, uint64_t map, const exit_handler *row);
void memory_end_step(struct cpu *cpu);
/* Ends the step at the monitor trap flag's exit. If a SIPI or a MOV to CR0, CR3 or CR4 has asked
 * for an exit by the flag, too, also calls the handler of that exit. */
void memory_step_trapped(struct cpu *cpu);
/* Ends a step at any other exit. The record is dropped, unless the instruction has retired. */
exit_function memory_abandon_step;
/* Keeps events from coming before the stepped instruction. `qualification` says whether an IRET had
 * unblocked NMIs before it violated the map. */
void memory_block_events(struct cpu *cpu, uint64_t qualification);
/* If an IRET had unblocked NMIs before it exited, keeps NMIs blocked until the guest executes the
 * IRET again. */
static inline void memory_keep_nmi_blocked(const struct cpu *cpu, uint64_t qualification)
{
    if (qualification & EPT_VIOLATION_NMI_UNBLOCKING)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, cpu->blocking | BLOCKING_BY_NMI);
}

/* memory_violation.c: handles a violation of the closed map. memory_step_row has the handlers for
 * the exits of an instruction's step. */
exit_function memory_violation;
extern exit_handler memory_step_row[EXIT_REASON_COUNT + 1];
void memory_step_setup(void); /* call at least once */

/* memory_device.c: like memory_violation(), but for a device's registers or memory, with
 * memtrace=devices. */
exit_function memory_device_violation;
void memory_device_setup(void); /* call at least once */

/* memory_pages.c: these functions turn the page-modification log on, move its entries to the ring,
 * and turn the log off. */
void memory_pages_start(struct cpu *cpu);
void memory_pages_flush(struct cpu *cpu);
void memory_pages_stop(struct cpu *cpu);

/* memory_walk.c: handles a page walk's own access to the guest's memory so that the walk can start
 * again. Returns false if the walk would cause the same violation again. */
bool memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa);
/* memory_chunk.c: if the instruction recorded in `stepped` was an iteration of a REP, executes the
 * following iterations in the same page at once. `rsi` is RSI before the stepped iteration. */
void memory_do_string(struct cpu *cpu, const struct trace_memory *stepped, uint64_t rsi);

/* ---- deliver.c ---- */

/* Lets the next VM entry deliver the exception that exited, which must not be #DB. If the exception
 * occurred during the delivery of another event, the entry delivers the event that results from
 * both. */
void deliver_exception(struct cpu *cpu);

/* ---- lend.c: IA32_FIXED_CTR0, to count the guest's retired instructions. The count starts at
 * PMU_LENT_FROM. The counter is lent only if the guest does not use it. Its old value is restored
 * unless the guest has begun to use the counter. Call both functions from an exit's handler. ----
 */

/* The numbers match TRACE_COUNTER_* (trace_ring.h). */
enum pmu_lent { PMU_NO_COUNTER, PMU_COUNTER_LENT, PMU_COUNTER_IN_USE };
#define PMU_LENT_FROM BIT(46)
#define PMU_LENT_COUNT BITS(43, 0)
enum pmu_lent pmu_lend_counter(struct cpu *cpu);
void pmu_give_counter_back(struct cpu *cpu);
