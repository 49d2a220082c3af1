/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What stands in for the instructions of a real machine: the compiler includes this before each
 * file of the image that pmuvisor-check is made of. The files themselves are the image's own.
 */
#pragma once

#include "mm/mmio.h"
#include "vmx/vmcs.h"
#include "x86.h"

struct cpuid_result machine_cpuid(uint32_t leaf, uint32_t subleaf);
uint64_t machine_rdmsr(uint32_t index);
uint64_t machine_mmio_read(uint64_t address, unsigned bytes);
/* Any port of 32 bits is taken for ACPI's PM timer: it goes with the TSC, and that with each read.
 */
uint32_t machine_pm_timer(uint16_t port);
uint64_t machine_rdtsc(void);
void machine_mmio_write(uint64_t address, unsigned bytes, uint64_t value);

/* A processor as it is when firmware hands over; nothing of it changes. What the image may hand on
 * as a pointer to a function has no parameters here. */
#define cpuid machine_cpuid
/* Of x86.h, which is here already and asks the real processor. */
static inline struct cpuid_result machine_extended_features(void)
{
    struct cpuid_result none = {0};

    return cpuid(0, 0).eax < CPUID_LEAF_EXTENDED ? none : cpuid(CPUID_LEAF_EXTENDED, 0);
}
#define cpuid_extended_features machine_extended_features
#define rdmsr machine_rdmsr
#define wrmsr(index, value) ((void)(index), (void)(value))
#define read_cr0() ((uint64_t)(CR0_PE | CR0_PG))
#define read_cr3() 0UL
#define read_cr4() ((uint64_t)CR4_PAE)
#define write_cr0(value) ((void)(value))
#define write_cr3(value) ((void)(value))
#define write_cr4(value) ((void)(value))
#define rdtsc machine_rdtsc
#define wbinvd() ((void)0)
#define cli() ((void)0)
#define inb(port) ((uint8_t)((void)(port), 0xff))
#define inw(port) ((uint16_t)((void)(port), 0xffff))
#define inl machine_pm_timer
#define outb(port, value) ((void)(port), (void)(value))
#define outw(port, value) ((void)(port), (void)(value))
#define outl(port, value) ((void)(port), (void)(value))
#define delay_us(us) ((void)(us))

#define mmio_read_32(address) ((uint32_t)machine_mmio_read(address, 4))
#define mmio_read_64(address) machine_mmio_read(address, 8)
#define mmio_write_32(address, value) machine_mmio_write(address, 4, value)
#define mmio_write_64(address, value) machine_mmio_write(address, 8, value)

/* There is no VMCS: what is written to it decides nothing. */
#define vmcs_read_16(field) ((uint16_t)((void)(field), 0))
#define vmcs_read_32(field) ((uint32_t)((void)(field), 0))
#define vmcs_read_64(field) ((uint64_t)((void)(field), 0))
#define vmcs_read_natural(field) ((uint64_t)((void)(field), 0))
#define vmcs_write_16(field, value) ((void)(field), (void)(value))
#define vmcs_write_32(field, value) ((void)(field), (void)(value))
#define vmcs_write_64(field, value) ((void)(field), (void)(value))
#define vmcs_write_raw(field, value) ((void)(field), (void)(value))
#define vmcs_write_natural(field, value) ((void)(field), (void)(value))
