/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Instructions that exit under any hypervisor (the thesis's Table 4.3), one port that passes, and
 * CPUID inside the NMI handler, where NMIs are blocked: bookkeeping has more to do there.
 * SDM Vol. 3, "Instructions That Cause VM Exits".
 */
#include "internal.h"

#define NAME "exit"
#define BASE "empty"
#define BASE_RAX "empty_rax"
#define NO_SUCH_HYPERCALL (~0ull)
/* PCI's CONFIG_ADDRESS: a register of 32 bits that a read does not change, near the processor. */
#define PASSED_PORT 0xcf8
#define NO_PORT "no port is known that the hypervisor traps"

static struct loop cpuid_registers; /* leaf 0 */
static struct item blocked = {NAME, "cpuid_blocked", BASE_RAX, 0};

static uint32_t blocked_pass;

static void cpuid_inside_handler(void)
{
    item_pass(&blocked, loop_cpuid, &cpuid_registers, blocked_pass);
}

/* An NMI for each pass: no other is kept waiting for longer than one takes. */
static void blocked_item(void)
{
    if (!item_ready(&blocked))
        return;
    for (blocked_pass = 0; blocked_pass < item_passes(); blocked_pass++) {
        if (!nmi_run(cpuid_inside_handler)) {
            item_skip(&blocked, "an NMI that was sent did not come");
            return;
        }
    }
    item_print_loop(&blocked);
}

static loop_function in_of(uint8_t bytes)
{
    return bytes == 1 ? loop_in_8 : bytes == 2 ? loop_in_16 : loop_in_32;
}

static loop_function out_of(uint8_t bytes)
{
    return bytes == 1 ? loop_out_8 : bytes == 2 ? loop_out_16 : loop_out_32;
}

/* What the port holds, once. */
static uint64_t port_value(uint16_t port, uint8_t bytes)
{
    uint32_t value = 0;

    if (bytes == 1)
        __asm__ volatile("inb %%dx, %%al" : "+a"(value) : "d"(port));
    else if (bytes == 2)
        __asm__ volatile("inw %%dx, %%ax" : "+a"(value) : "d"(port));
    else
        __asm__ volatile("inl %%dx, %%eax" : "+a"(value) : "d"(port));
    return value;
}

static void ports(uint32_t region)
{
    const struct item in = {NAME, "inl", BASE, region}, out = {NAME, "outl", BASE, region + 1};
    const struct item passed = {NAME, "inl_passed", BASE, region + 2};
    struct loop registers = {.rdx = measure_host->trapped_port};
    uint8_t bytes = measure_host->trapped_bytes;

    if (measure_host->trapped_port == 0) {
        item_skip(&in, NO_PORT);
        item_skip(&out, NO_PORT);
    } else {
        registers.rax = port_value(measure_host->trapped_port, bytes) &
                        ~(uint64_t)measure_host->trapped_clear;
        measure_loop(&in, in_of(bytes), &registers);
        measure_loop(&out, out_of(bytes), &registers);
    }
    if (measure_host->hypervisor == MEASURE_KVM) {
        item_skip(&passed, "KVM passes no port");
        return;
    }
    registers = (struct loop){.rdx = PASSED_PORT};
    measure_loop(&passed, loop_in_32, &registers);
}

void measure_exit(void)
{
    uint32_t region = REGION_EXIT_FIRST;
    const struct item empty = {NAME, "empty", NULL, region++};
    const struct item empty_rax = {NAME, "empty_rax", NULL, region++};
    const struct item cpuid = {NAME, "cpuid", BASE_RAX, region++};
    const struct item vmcall = {NAME, "vmcall", BASE_RAX, region++};
    const struct loop zero = {.rax = 0}, call = {.rax = NO_SUCH_HYPERCALL};

    blocked.region = region++;
    measure_loop(&empty, loop_empty, &zero);
    measure_loop(&empty_rax, loop_empty_rax, &zero);
    measure_loop(&cpuid, loop_cpuid, &zero);
    if (measure_host->hypervisor == MEASURE_NATIVE)
        item_skip(&vmcall, "no hypervisor");
    else if (measure_host->hypervisor == MEASURE_OTHER)
        item_skip(&vmcall, "a hypervisor that is not known: VMCALL may be undefined");
    else
        measure_loop(&vmcall, loop_vmcall, &call);
    ports(region);
    blocked_item();
}
