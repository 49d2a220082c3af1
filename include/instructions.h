/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One C function for each instruction that C cannot express. Programs on the host that run the
 * hypervisor's code have functions of the same names in place of this header (tests/host).
 */
#pragma once

#ifdef __KERNEL__ /* programs/measure, in a module for Linux */
#include <linux/types.h>
#else
#include <stdint.h>
#endif

struct cpuid_result {
    uint32_t eax;
    uint32_t ebx;
    uint32_t ecx;
    uint32_t edx;
};

static inline struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_result r;
    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
}

/* Faults if the MSR does not exist. For an index that the guest chose, use vmx/root/fault.h. */
static inline uint64_t rdmsr(uint32_t index)
{
    uint32_t low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void wrmsr(uint32_t index, uint64_t value)
{
    __asm__ volatile("wrmsr"
                     :
                     : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
                     : "memory");
}

#define DEFINE_CR(n)                                                                               \
    static inline uint64_t read_cr##n(void)                                                        \
    {                                                                                              \
        uint64_t value;                                                                            \
        __asm__ volatile("mov %%cr" #n ", %0" : "=r"(value) : : "memory");                         \
        return value;                                                                              \
    }                                                                                              \
    static inline void write_cr##n(uint64_t value)                                                 \
    {                                                                                              \
        __asm__ volatile("mov %0, %%cr" #n : : "r"(value) : "memory");                             \
    }
DEFINE_CR(0)
DEFINE_CR(2)
DEFINE_CR(3)
DEFINE_CR(4)
#undef DEFINE_CR

/* Sets DR0 to DR3 to 0, and DR6 to `dr6`. Root mode leaves these registers to the guest. */
static inline void reset_debug_registers(uint64_t dr6)
{
    __asm__ volatile("mov %0, %%dr0\n\t"
                     "mov %0, %%dr1\n\t"
                     "mov %0, %%dr2\n\t"
                     "mov %0, %%dr3\n\t"
                     "mov %1, %%dr6"
                     :
                     : "r"(0ULL), "r"(dr6));
}

static inline uint64_t rdtsc(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* inb(), outb() and so on. All take the port, and writes also take the value. */
#define DEFINE_PORT(size, type)                                                                    \
    static inline type in##size(uint16_t port)                                                     \
    {                                                                                              \
        type value;                                                                                \
        __asm__ volatile("in" #size " %1, %0" : "=a"(value) : "Nd"(port));                         \
        return value;                                                                              \
    }                                                                                              \
    static inline void out##size(uint16_t port, type value)                                        \
    {                                                                                              \
        __asm__ volatile("out" #size " %0, %1" : : "a"(value), "Nd"(port));                        \
    }
DEFINE_PORT(b, uint8_t)
DEFINE_PORT(w, uint16_t)
DEFINE_PORT(l, uint32_t)
#undef DEFINE_PORT

static inline void cli(void) { __asm__ volatile("cli" : : : "memory"); }
static inline void invlpg(const void *page)
{
    __asm__ volatile("invlpg (%0)" : : "r"(page) : "memory");
}
static inline void wbinvd(void) { __asm__ volatile("wbinvd" : : : "memory"); }

/* Stops this processor for good. Only an NMI or SMI wakes it, and then it stops again. */
static inline _Noreturn void halt_forever(void)
{
    for (;;)
        __asm__ volatile("cli; hlt");
}
