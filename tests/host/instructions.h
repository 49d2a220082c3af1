/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes the place of include/instructions.h in programs on the host that run the hypervisor's code:
 * -Itests/host comes first on their include path. Each program defines the functions that its code
 * calls. instructions.c defines the others.
 */
#pragma once

#include <stdint.h>

struct cpuid_result {
    uint32_t eax;
    uint32_t ebx;
    uint32_t ecx;
    uint32_t edx;
};

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf);
uint64_t rdmsr(uint32_t index);
void wrmsr(uint32_t index, uint64_t value);
uint64_t read_cr0(void);
uint64_t read_cr2(void);
uint64_t read_cr3(void);
uint64_t read_cr4(void);
void write_cr0(uint64_t value);
void write_cr2(uint64_t value);
void write_cr3(uint64_t value);
void write_cr4(uint64_t value);
void reset_debug_registers(uint64_t dr6);
uint64_t rdtsc(void);
uint8_t inb(uint16_t port);
uint16_t inw(uint16_t port);
uint32_t inl(uint16_t port);
void outb(uint16_t port, uint8_t value);
void outw(uint16_t port, uint16_t value);
void outl(uint16_t port, uint32_t value);
void cli(void);
void invlpg(const void *page);
void wbinvd(void);
_Noreturn void halt_forever(void);
