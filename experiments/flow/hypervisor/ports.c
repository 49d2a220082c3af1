/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Traces the I/O ports of one device. Root mode executes the guest's IN or OUT, as for any port
 * that exits (vmx/exit/io.c). A string instruction also accesses memory with the guest's rights,
 * and only the processor itself does that correctly. So the first string instruction opens its port
 * to the guest until the trace level is set again. The trace does not change ports that the policy
 * watches. SDM Vol. 3, "I/O-Bitmap Addresses"; "Exit Qualification for I/O Instructions".
 */
#include "experiments/flow/hypervisor/ports.h"

#include "experiments/flow/hypervisor/level.h"
#include "experiments/flow/hypervisor/options.h"
#include "vmx/exit/exit.h"
#include "vmx/exit/report.h"

/* If bit n is set, the port with the number port_options.first + n is traced. The value is the same
 * on all processors. */
static uint64_t own;

static uint8_t *bitmap_byte(struct cpu *cpu, unsigned port)
{
    return (uint8_t *)cpu->io_bitmaps + port / 8;
}

void trace_ports_setup(struct cpu *cpu)
{
    uint64_t found = 0;

    for (unsigned i = 0; i < port_options.count && port_options.first + i <= UINT16_MAX; i++)
        if (!(*bitmap_byte(cpu, port_options.first + i) & 1u << (port_options.first + i) % 8))
            found |= BIT(i);
    own = port_options.first == PORTS_NONE ? 0 : found;
}

/* Sets or clears the bits of the traced ports in this range. Returns whether any bit changed. */
static bool set_port_exiting(struct cpu *cpu, unsigned first, unsigned count, bool on)
{
    bool changed = false;

    for (unsigned port = first; port < first + count; port++) {
        unsigned at = port - port_options.first;
        uint8_t bit = (uint8_t)(1u << port % 8);

        if (at >= PORTS_MAX || !(own & BIT(at)) || !!(*bitmap_byte(cpu, port) & bit) == on)
            continue;
        *bitmap_byte(cpu, port) ^= bit;
        changed = true;
    }
    return changed;
}

static void handle_traced_io(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    unsigned port = (uint16_t)(qualification >> IO_PORT_SHIFT);
    unsigned bytes = (unsigned)(qualification & IO_SIZE_MASK) + 1;

    if (!(qualification & IO_STRING) || !set_port_exiting(cpu, port, bytes, false)) {
        trace_of(cpu)->untraced[EXIT_REASON_IO_INSTRUCTION](cpu);
        return;
    }
    if (may_log_refusal(cpu))
        log_printf(
            "pmuvisor: trace_port=: a string instruction at port 0x%x, which passes from now on\n",
            port);
    reexecute_instruction();
}

void trace_set_port_exiting(struct cpu *cpu, bool on)
{
    if (own == 0)
        return;
    (void)set_port_exiting(cpu, port_options.first, port_options.count, on);
    if (on)
        cpu->handlers[EXIT_REASON_IO_INSTRUCTION] = handle_traced_io;
}
