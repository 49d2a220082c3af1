/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trace of exits, as the start knows it. Nothing of it is in an image that was built with
 * TRACE=0, and nothing of it runs with trace=off: levels are other entries and other rows of
 * handlers.
 */
#pragma once

#include "cpu.h"
#include "vmx/capability.h"

#ifdef TRACE

/* Pages of the pool that the rings and what goes with them need, for these options and processors;
 * the guest's own map has `tables` of them. */
uint64_t trace_pages(const struct boot_info *bi, uint64_t tables);
/* How many bytes the guest may read of the pool; 0 where nothing is traced. */
uint64_t trace_readable_bytes(const struct boot_info *bi);
/* Takes the rings' memory from the pool, once, before the guest's map is built. Gives where it is,
 * an empty range where nothing is traced. A pool that is used up ends the start. */
struct range trace_reserve(const struct boot_info *bi);
/* On the processor itself, VMCS current and set up: its ring, and the level that the options name.
 * */
void trace_setup(struct cpu *cpu, const struct vmx_capability *c);

#else

static inline uint64_t trace_pages(const struct boot_info *bi, uint64_t tables)
{
    (void)bi, (void)tables;
    return 0;
}
static inline uint64_t trace_readable_bytes(const struct boot_info *bi)
{
    (void)bi;
    return 0;
}
static inline struct range trace_reserve(const struct boot_info *bi)
{
    (void)bi;
    return (struct range){0, 0};
}
static inline void trace_setup(struct cpu *cpu, const struct vmx_capability *c)
{
    (void)cpu, (void)c;
}

#endif
