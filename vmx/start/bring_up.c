/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Starts the other processors before the guest, so that none of them ever executes a guest
 * instruction outside VMX operation.
 * SDM Vol. 3, "Multiple-Processor (MP) Initialization"; "Restrictions on VMX Operation".
 */
#include "vmx/start/start.h"

#include <string.h>

#include "apic/apic.h"
#include "vmx/exit/exit.h"
#include "vmx/root/end.h"

#define ENTRY_US 100     /* a ready processor executes VMLAUNCH within this time, barring an SMI */
#define READY_US 1000000 /* longest wait from a processor's first instruction until it is ready */

static const struct start *first_start;
static uint64_t apic_base_page;

/* Returns whether this processor can run the same guest as the first one. All processors must share
 * the EPT, the local APIC's page, and the CPUID features, which the guest reads on the first
 * processor. False: s->refusal says what differs. */
static bool matches_first_processor(struct start *s, const struct start *first)
{
    const uint64_t shared = EPT_CAP_PAGE_1G | EPT_CAP_PAGE_2M;
    const struct vmx_capability *mine = &s->capability, *its = &first->capability;
    bool controls = true;

    for (unsigned set = 0; set < SET_COUNT; set++)
        controls &= (first->controls.value[set] & ~s->controls.value[set]) == 0;
    if (its->ept_vpid & shared & ~mine->ept_vpid || !controls ||
        its->physical_address_bits != mine->physical_address_bits ||
        apic_page().base != apic_base_page)
        return refuse(&s->refusal, REFUSE_UNSUPPORTED,
                      "it lacks VMX controls or EPT page sizes, or has other physical addresses or "
                      "another local APIC base than the first one");
    return true;
}

/* Both sides report the outcome of a start: the started processor and its starter. The first report
 * wins. Returns whether this report won. */
static bool report_start_outcome(struct start *s, enum start_state state)
{
    enum start_state starting = STARTING;

    return __atomic_compare_exchange_n(&s->state, &starting, state, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* The trampoline calls this function on the processor's own stack and the hypervisor's page
 * tables. */
static _Noreturn void run_started_processor(struct start *s)
{
    bool fits = processor_choose_controls(s) && matches_first_processor(s, first_start);

    s->arrived = true;
    if (!fits || processors.count == s->cpu->boot->settings.processors) {
        /* Enter VMX operation even though the processor is not used: VMX root operation blocks
         * INITs from the guest (SDM, "Restrictions"). */
        if (s->capability.basic != 0 && !processor_vmxon(s))
            refuse(&s->refusal, REFUSE_UNSUPPORTED, "VMXON failed");
        (void)report_start_outcome(s, REFUSED);
        halt_forever(); /* only NMIs interrupt this; the last NMI leads to processor_end() */
    }
    processor_set_up_exits(s);
    processor_enter_vmx(s, false);
    s->cpu->starting = false;
    if (!report_start_outcome(s, READY))
        processor_end(s->cpu, 0, true);
    while (!processors_running)
        cpu_relax();
    write_cr3(read_cr3()); /* flush the TLB, because the trampoline's page is no longer mapped */
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_WAIT_FOR_SIPI);
    vmx_launch();
}

static void start_processor(const struct boot_info *bi, uint32_t apic_id)
{
    struct start *s = processor_new(bi, apic_id, first_start->cpu->host_cr3);

    s->cpu->starting = true;
    s->cpu->ept_root = first_start->cpu->ept_root;
    s->cpu->tsc_khz = first_start->cpu->tsc_khz;
    trampoline_write(bi->trampoline.base, s, run_started_processor);
    if (!apic_start_processor(apic_id, bi->trampoline.base, &s->arrived)) {
        log_printf(
            "pmuvisor: processor %u did not start; it is hidden from the guest, which leaves "
            "the hypervisor if it starts it\n",
            apic_id);
        (void)report_start_outcome(s, LOST);
        return;
    }
    for (unsigned us = 0; us < READY_US && s->state == STARTING && !s->cpu->ended; us++)
        delay_us(1);
    if (report_start_outcome(s, LOST)) {
        if (!s->cpu->in_vmx && apic_send(apic_id, ICR_INIT)) {
            delay_us(ENTRY_US);
            log_break_lock(); /* the INIT may have stopped the processor while it was logging */
        }
        log_printf("pmuvisor: processor %u was lost during its start; it is hidden from the guest, "
                   "which leaves the hypervisor if it starts it\n",
                   apic_id);
    } else if (s->state == READY)
        processors_add(s->cpu);
    else if (s->refusal.line[0] != '\0')
        log_printf("pmuvisor: processor %u cannot be used and is hidden from the guest: %s\n",
                   apic_id, s->refusal.line);
}

void processors_start(const struct boot_info *bi, const struct start *first)
{
    uint64_t root = first->cpu->host_cr3;
    uint32_t known = bi->acpi.processors < PROCESSORS_MAX ? bi->acpi.processors : PROCESSORS_MAX;

    first_start = first;
    apic_base_page = apic_page().base;
    processors_add(first->cpu);
    if (bi->trampoline.size != 0) {
        (void)host_paging_map(root, bi->trampoline, HOST_READ_EXECUTE);
        for (uint32_t i = 0; i < known; i++)
            if (bi->acpi.apic_id[i] != first->cpu->apic_id)
                start_processor(bi, bi->acpi.apic_id[i]);
        host_paging_unmap(root, bi->trampoline.base);
        memset((void *)bi->trampoline.base, 0, PAGE_SIZE); /* the page contains pool addresses */
    }
    if (bi->acpi.processors > 1)
        log_printf("pmuvisor: %u of %u processors are under VMX%s\n", processors.count,
                   bi->acpi.processors,
                   bi->trampoline.size == 0 ? ": no free page below 640 KiB to start others"
                   : processors.count == bi->settings.processors && processors.count < known
                       ? ", as processors= says; the others are hidden"
                       : "");
}

void processors_enter_guest(void)
{
    processors_running = true;
    if (processors.count > 1)
        delay_us(ENTRY_US);
}
