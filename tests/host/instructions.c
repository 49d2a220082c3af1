/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Ends a program that executes an instruction without having a function for it. The linker prefers
 * the program's own functions, because the symbols here are weak.
 */
#include "instructions.h"

#include <stdio.h>
#include <stdlib.h>

#include "mm/mmio.h"
#include "vmx/vmcs_access.h"

static _Noreturn void missing(const char *name)
{
    fprintf(stderr, "tests/host: found a call of %s(), wanted a function of this program for it\n",
            name);
    abort();
}

#define MISSING(type, name, ...)                                                                   \
    __attribute__((weak)) type name(__VA_ARGS__) { missing(#name); }
#define ANY __attribute__((unused))
MISSING(struct cpuid_result, cpuid, ANY uint32_t leaf, ANY uint32_t subleaf)
MISSING(uint64_t, rdmsr, ANY uint32_t index)
MISSING(void, wrmsr, ANY uint32_t index, ANY uint64_t value)
MISSING(uint64_t, read_cr0, void)
MISSING(uint64_t, read_cr2, void)
MISSING(uint64_t, read_cr3, void)
MISSING(uint64_t, read_cr4, void)
MISSING(void, write_cr0, ANY uint64_t value)
MISSING(void, write_cr2, ANY uint64_t value)
MISSING(void, write_cr3, ANY uint64_t value)
MISSING(void, write_cr4, ANY uint64_t value)
MISSING(void, reset_debug_registers, ANY uint64_t dr6)
MISSING(uint64_t, rdtsc, void)
MISSING(uint8_t, inb, ANY uint16_t port)
MISSING(uint16_t, inw, ANY uint16_t port)
MISSING(uint32_t, inl, ANY uint16_t port)
MISSING(void, outb, ANY uint16_t port, ANY uint8_t value)
MISSING(void, outw, ANY uint16_t port, ANY uint16_t value)
MISSING(void, outl, ANY uint16_t port, ANY uint32_t value)
MISSING(void, cli, void)
MISSING(void, invlpg, ANY const void *page)
MISSING(void, wbinvd, void)
MISSING(_Noreturn void, halt_forever, void)
MISSING(uint32_t, mmio_read_32, ANY uint64_t address)
MISSING(uint64_t, mmio_read_64, ANY uint64_t address)
MISSING(void, mmio_write_32, ANY uint64_t address, ANY uint32_t value)
MISSING(void, mmio_write_64, ANY uint64_t address, ANY uint64_t value)
MISSING(uint64_t, vmcs_read_raw, ANY uint32_t encoding)
MISSING(void, vmcs_write_raw, ANY uint32_t encoding, ANY uint64_t value)
