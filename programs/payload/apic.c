/* SPDX-License-Identifier: BSD-2-Clause
 * apic.c: the jobs `apic` and `apicbad`: a register of the local APIC reached through /dev/mem
 * (kernel command line: iomem=relaxed) by the instruction forms that PMUvisor performs with
 * apic=trap, and by others that it refuses. The rows of `apic` say what the guest saw; natively,
 * with apic=pass and with apic=trap they are the same. SDM Vol. 3, "Local Vector Table".
 *
 * The register is the error LVT, whose mask bit stays set: it can be written and read back without
 * any effect.
 */
#define _GNU_SOURCE
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define APIC_PAGE 0xfee00000ul
#define LVT_ERROR 0x370
#define LVT_MASKED 0x10000u
#define PAGE_BYTES 4096ul
/* Below 2 GiB, so that 32-bit code and displacements reach it; the forms below name it. */
#define WINDOW 0x10000000ul
#define CODE 0x10100000ul
#define CODE_LOW_STACK (CODE + 8 * PAGE_BYTES)

#define USER32_CS 0x23 /* Linux's 32-bit user code segment, and its user data segment */
#define USER_DS 0x2b

#define FLAG_TF 0x100u
#define STATUS_FLAGS 0x8c5u /* OF SF ZF PF CF; AF is undefined after logical operations */

#define MEMORY_BEFORE (LVT_MASKED | 0xe1u)
#define REGISTER_BEFORE (LVT_MASKED | 0x5fu)

/* What a form gets and leaves: RBX = the register's address, ECX in and out, RDX = 0, flags out. */
struct form {
    const char *name;
    void (*run)(uint32_t *ecx, uint64_t *flags);
};

#define ROW(function, text) {#function, function},
#define DEFINE(function, text)                                                                     \
    static void function(uint32_t *ecx, uint64_t *flags)                                           \
    {                                                                                              \
        uint32_t c = *ecx;                                                                         \
        uint64_t f = 0, a = 0;                                                                     \
        __asm__ volatile("lea -128(%%rsp), %%rsp\n\t" /* past the red zone */                      \
                         "push $2\n\tpopf\n\t" text "\n\t"                                         \
                         "pushf\n\tpop %[f]\n\t"                                                   \
                         "lea 128(%%rsp), %%rsp"                                                   \
                         : "+c"(c), [f] "=r"(f), "+a"(a)                                           \
                         : "b"(WINDOW + LVT_ERROR), "d"(0ul)                                       \
                         : "r9", "r10", "cc", "memory");                                           \
        *ecx = c;                                                                                  \
        *flags = f;                                                                                \
    }

#define PERFORMED(FORM)                                                                            \
    FORM(mov_load, "mov (%%rbx), %%ecx")                                                           \
    FORM(mov_store, "mov %%ecx, (%%rbx)")                                                          \
    FORM(mov_immediate, "movl $0x10077, (%%rbx)")                                                  \
    FORM(mov_high_register, "mov (%%rbx), %%r9d; mov %%r9, %%rcx")                                 \
    FORM(mov_stack_pointer,                                                                        \
         "mov %%rsp, %%r10; mov (%%rbx), %%esp; mov %%rsp, %%rcx; mov %%r10, %%rsp")               \
    FORM(mov_sib, "mov 0(%%rbx,%%rdx,4), %%ecx")                                                   \
    FORM(mov_displacement, "mov %%ecx, -0x370+0x370(%%rbx,%%rdx,8)")                               \
    FORM(mov_absolute, "mov 0x10000370, %%ecx")                                                    \
    FORM(mov_segment, "mov %%ds:(%%ebx), %%ecx")                                                   \
    FORM(offset_load, "movabs 0x10000370, %%eax; mov %%eax, %%ecx")                                \
    FORM(offset_store, "mov %%ecx, %%eax; movabs %%eax, 0x10000370")                               \
    FORM(offset_short, "addr32 movabs 0x10000370, %%eax; mov %%eax, %%ecx")                        \
    FORM(exchange, "xchg %%ecx, (%%rbx)")                                                          \
    FORM(locked_exchange, "lock xchg %%ecx, (%%rbx)")

PERFORMED(DEFINE)

static const struct form forms[] = {PERFORMED(ROW)};

#define REFUSED(FORM)                                                                              \
    FORM(byte_load, "mov (%%rbx), %%cl")                                                           \
    FORM(quad_load, "mov (%%rbx), %%rcx")                                                          \
    FORM(word_store, "mov %%cx, (%%rbx)")                                                          \
    FORM(unaligned_load, "mov 2(%%rbx), %%ecx")                                                    \
    FORM(page_end_load, "mov 0xffe-0x370(%%rbx), %%ecx")                                           \
    FORM(byte_offset, "movabs 0x10000370, %%al; mov %%eax, %%ecx")                                 \
    FORM(quad_offset, "movabs 0x10000370, %%rax; mov %%rax, %%rcx")                                \
    FORM(or_immediate, "orl $0x1e, (%%rbx)")                                                       \
    FORM(add_load, "add (%%rbx), %%ecx")                                                           \
    FORM(compare_immediate, "cmpl $0x100e1, (%%rbx)")                                              \
    FORM(test_immediate, "testl $0x10000, (%%rbx)")                                                \
    FORM(extended_load, "movzbl (%%rbx), %%ecx")                                                   \
    FORM(add_with_carry, "adc %%ecx, (%%rbx)")                                                     \
    FORM(string_store, "mov %%rdi, %%r10; mov %%rbx, %%rdi; stosl; mov %%r10, %%rdi")              \
    FORM(vector_load, "movups (%%rbx), %%xmm0")                                                    \
    FORM(stack_push, "pushq (%%rbx)")                                                              \
    FORM(fetch, "jmp *%%rbx")

REFUSED(DEFINE)

/* A load that is performed in 64-bit code, from 32-bit code, which comes back by a far return. */
static void load_32(uint32_t *ecx, uint64_t *flags)
{
    static const uint8_t code[] = {
        0x8b, 0x0d, 0x70, 0x03, 0x00, 0x10, /* mov ecx, [0x10000370] */
        0xcb,                               /* retf */
    };
    static const struct {
        uint32_t offset;
        uint16_t selector;
    } __attribute__((packed)) target = {CODE, USER32_CS};
    uint8_t *pages = mmap((void *)CODE, CODE_LOW_STACK - CODE, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    uint32_t loaded = 0;

    (void)flags;
    if (pages == MAP_FAILED)
        return;
    memcpy(pages, code, sizeof(code));
    /* In 64-bit programs DS is null, which 32-bit code cannot use. */
    __asm__ volatile("mov %[data], %%ds\n\t"
                     "mov %%rsp, %%r10\n\t"
                     "mov %[stack], %%rsp\n\t"
                     "lcall *%[target]\n\t"
                     "mov %%r10, %%rsp"
                     : "=c"(loaded)
                     : [stack] "r"(CODE_LOW_STACK), [target] "m"(target), [data] "r"(USER_DS)
                     : "rax", "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
                       "r14", "r15", "cc", "memory");
    *ecx = loaded;
}

static const struct form refused[] = {REFUSED(ROW){"load_32", load_32}};

static volatile uint32_t *const lvt = (volatile uint32_t *)(WINDOW + LVT_ERROR);
static sigjmp_buf on_fault;
static volatile uint64_t stepped_to;

static void note_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    siglongjmp(on_fault, 1);
}

static void note_step(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

    (void)signal;
    (void)info;
    stepped_to = (uint64_t)registers[REG_RIP];
    registers[REG_EFL] &= ~(greg_t)FLAG_TF;
}

static bool map_window(const char *job)
{
    int mem = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    void *at = MAP_FAILED;

    if (mem >= 0) {
        at = mmap((void *)WINDOW, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                  MAP_SHARED | MAP_FIXED_NOREPLACE, mem, (off_t)APIC_PAGE);
        close(mem);
    }
    return at != MAP_FAILED || !fail_job(job, "cannot map the local APIC", errno);
}

/* A single step over one access: the trap comes after it, once. */
static void step(void)
{
    uint64_t wanted;

    stepped_to = 0;
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
                     "lea 1f(%%rip), %[wanted]\n\t"
                     "pushf\n\t"
                     "orq %[tf], (%%rsp)\n\t"
                     "popf\n\t"
                     "mov (%[from]), %%ecx\n"
                     "1:\tlea 128(%%rsp), %%rsp"
                     : [wanted] "=&r"(wanted)
                     : [from] "r"(lvt), [tf] "i"(FLAG_TF)
                     : "rcx", "cc", "memory");
    printf("apic: step=%s\n", stepped_to == wanted ? "ok" : "wrong");
}

/* mov ecx, [WINDOW + LVT_ERROR]; ret, and the same with EDX. */
static const uint8_t load_ecx[] = {0x8b, 0x0c, 0x25, 0x70, 0x03, 0x00, 0x10, 0xc3};
static const uint8_t load_edx[] = {0x8b, 0x14, 0x25, 0x70, 0x03, 0x00, 0x10, 0xc3};

static void call(uint64_t code, uint32_t *ecx, uint32_t *edx)
{
    uint64_t c = 0, d = 0;

    __asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
                     "call *%[code]\n\t"
                     "lea 128(%%rsp), %%rsp"
                     : "+c"(c), "+d"(d)
                     : [code] "r"(code)
                     : "rax", "cc", "memory");
    *ecx = (uint32_t)c;
    *edx = (uint32_t)d;
}

/* An instruction in two pages, cut at each of its bytes. */
static void cross_pages(void)
{
    uint8_t *pages = mmap((void *)CODE, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    unsigned good = 0;

    if (pages == MAP_FAILED) {
        printf("apic: cross=unmapped\n");
        return;
    }
    for (unsigned before = 0; before < sizeof(load_ecx); before++) {
        uint8_t *at = pages + PAGE_BYTES - before;
        uint32_t ecx, edx;

        memcpy(at, load_ecx, sizeof(load_ecx));
        call((uint64_t)at, &ecx, &edx);
        good += ecx == MEMORY_BEFORE && edx == 0;
    }
    printf("apic: cross=%u\n", good);
    munmap(pages, 2 * PAGE_BYTES);
}

/* Other code at the same address, time after time: what was read before must not count. */
static void remap(void)
{
    int file = memfd_create("code", MFD_CLOEXEC);
    unsigned good = 0;

    if (file < 0 || ftruncate(file, 2 * PAGE_BYTES) != 0 ||
        pwrite(file, load_ecx, sizeof(load_ecx), 0) < 0 ||
        pwrite(file, load_edx, sizeof(load_edx), PAGE_BYTES) < 0) {
        printf("apic: remap=nofile\n");
        return;
    }
    for (unsigned n = 0; n < 20; n++) {
        uint32_t ecx, edx;

        if (mmap((void *)CODE, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file,
                 (off_t)(n % 2 * PAGE_BYTES)) == MAP_FAILED) {
            break;
        }
        call(CODE, &ecx, &edx);
        good += (n % 2 ? edx : ecx) == MEMORY_BEFORE && (n % 2 ? ecx : edx) == 0;
    }
    printf("apic: remap=%u\n", good);
    munmap((void *)CODE, PAGE_BYTES);
    close(file);
}

JOB(apic)
{
    struct sigaction stepped = {.sa_sigaction = note_step, .sa_flags = SA_SIGINFO};
    uint32_t saved;

    if (!map_window("apic"))
        return 1;
    saved = *lvt;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        uint32_t ecx = REGISTER_BEFORE;
        uint64_t flags = 0;

        *lvt = MEMORY_BEFORE;
        forms[i].run(&ecx, &flags);
        printf("apic: form=%s memory=%#x register=%#x flags=%#llx\n", forms[i].name, *lvt, ecx,
               (unsigned long long)(flags & STATUS_FLAGS));
    }
    *lvt = MEMORY_BEFORE;
    sigaction(SIGTRAP, &stepped, NULL);
    step();
    signal(SIGTRAP, SIG_DFL);
    cross_pages();
    remap();
    *lvt = saved;
    munmap((void *)WINDOW, PAGE_BYTES);
    return 0;
}

JOB(apicbad)
{
    struct sigaction action = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};
    volatile int failed = 0;

    if (!map_window("apicbad"))
        return 1;
    sigaction(SIGSEGV, &action, NULL);
    for (volatile size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        uint32_t ecx = REGISTER_BEFORE;
        uint64_t flags = 0;
        volatile bool faulted = true;

        if (sigsetjmp(on_fault, 1) == 0) {
            refused[i].run(&ecx, &flags);
            faulted = false;
        }
        printf("apicbad: form=%s result=%s\n", refused[i].name, faulted ? "SIGSEGV" : "done");
        failed |= !faulted;
    }
    signal(SIGSEGV, SIG_DFL);
    munmap((void *)CODE, CODE_LOW_STACK - CODE); /* of load_32() */
    munmap((void *)WINDOW, PAGE_BYTES);
    return failed;
}
