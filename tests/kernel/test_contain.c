/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guest cannot do: put the machine to sleep, reach the hypervisor's memory by the
 * processor, learn its addresses from the log.
 * ACPI specification, "PM1 Control Registers"; SDM Vol. 3, "EPT Violations".
 */
#include "host.h"
#include "kernel.h"

#include "boot_info.h"
#include "console/log.h"
#include "hypercall.h"

#define SLP_EN BIT(13)
#define SLP_TYP_SHIFT 10
#define SLP_TYPES 8
#define RANGES_MAX 16
#define CODE_WORD 0x90909090cc90c3c3ULL /* nothing that would run far */
#define HEX_DIGITS_MIN 6

/* ---- accesses that may fault ---- */

#define TRY(name, instruction, ...)                                                                \
    static bool name(uint64_t address, uint64_t value)                                             \
    {                                                                                              \
        bool done;                                                                                 \
        __asm__ volatile("movq $1f, fault_resume(%%rip)\n\t"                                       \
                         "movb $0, %0\n\t" instruction "\n\t"                                      \
                         "movb $1, %0\n"                                                           \
                         "1: movq $0, fault_resume(%%rip)"                                         \
                         : "=&q"(done)                                                             \
                         : "d"(address), "a"(value)                                                \
                         : "memory", "cc");                                                        \
        return done;                                                                               \
    }
TRY(out8, "outb %%al, %%dx")
TRY(out16, "outw %%ax, %%dx")
TRY(out32, "outl %%eax, %%dx")
TRY(store, "movq %%rax, (%%rdx)")

/* Comes back by the fault; where the call is executed, by whatever ends that. */
static bool execute(uint64_t address)
{
    uint64_t stack;
    bool done = false;

    __asm__ volatile("movq %%rsp, %1\n\t"
                     "movq $1f, fault_resume(%%rip)\n\t"
                     "call *%2\n\t"
                     "movb $1, %0\n"
                     "1: movq $0, fault_resume(%%rip)\n\t"
                     "movq %1, %%rsp"
                     : "+&q"(done), "=&b"(stack)
                     : "d"(address)
                     : "memory", "cc", "rax", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11");
    return done;
}

/* ---- sleep ---- */

static void expect_refused(const char *what, bool accepted, unsigned type, bool *good)
{
    if (!accepted && fault_vector == VECTOR_GP)
        return;
    tap_note("%s with SLP_TYP %u: %s, vector %lu", what, type, accepted ? "accepted" : "refused",
             fault_vector);
    *good = false;
}

/* By every width, and across the register's borders; the machine has to be awake after each. */
void test_sleep(const struct job *job)
{
    uint16_t port = machine_pm1a_control();
    unsigned names = machine_sleep_names();
    bool good = true;

    if (port == 0 || machine_s5_type() == SLP_TYP_UNKNOWN || !under_pmuvisor()) {
        tap_skip(job->name, "no PMUvisor, PM1 control register or \\_S5");
        return;
    }
    if (names != BIT(5)) {
        tap_note("the DSDT has sleep states 0x%x, wanted S5 alone", names);
        good = false;
    }
    for (unsigned type = 0; type < SLP_TYPES; type++) {
        uint64_t value = SLP_EN | type << SLP_TYP_SHIFT;
        if (type == machine_s5_type())
            continue;
        expect_refused("2 bytes", out16(port, value), type, &good);
        expect_refused("4 bytes", out32(port, value), type, &good);
        expect_refused("the upper byte", out8(port + 1U, value >> 8), type, &good);
        expect_refused("4 bytes, 2 before", out32(port - 2U, value << 16), type, &good);
        expect_refused("2 bytes, 1 behind", out16(port + 1U, value >> 8), type, &good);
        /* SLP_TYP alone changes nothing, as an operating system's first of two writes. */
        if (!out16(port, value & ~SLP_EN)) {
            tap_note("SLP_TYP %u without SLP_EN was refused", type);
            good = false;
        }
    }
    tap_result(good, job->name, NULL);
}

/* ---- memory ---- */

static struct hidden_range {
    uint64_t base, pages;
} hidden[RANGES_MAX];
static unsigned ranges;

static bool is_hidden(uint64_t address)
{
    for (unsigned i = 0; i < ranges; i++)
        if (address - hidden[i].base < hidden[i].pages * PAGE_SIZE)
            return true;
    return false;
}

/* Every page of reserved memory is read: those of the hypervisor are the ones that fault. */
static uint64_t find_hidden(bool *good)
{
    uint64_t base, size, value, pages = 0;

    ranges = 0;
    for (unsigned n = 0; machine_reserved(n, &base, &size); n++)
        for (uint64_t at = base; at < base + size; at += PAGE_SIZE) {
            if (read_try(at, &value))
                continue;
            *good &= fault_vector == VECTOR_GP;
            pages++;
            if (ranges != 0 && hidden[ranges - 1].base + hidden[ranges - 1].pages * PAGE_SIZE == at)
                hidden[ranges - 1].pages++;
            else if (ranges < RANGES_MAX)
                hidden[ranges++] = (struct hidden_range){at, 1};
        }
    return pages;
}

/* Says how many pages there are; whoever started this knows how many there must be. A write to the
 * doorbell is left out: it is the reset. */
void test_hidden(const struct job *job)
{
    bool good = true;
    uint64_t pages = find_hidden(&good), writes = 0, executions = 0;

    for (unsigned i = 0; i < ranges; i++)
        for (uint64_t at = hidden[i].base; at < hidden[i].base + hidden[i].pages * PAGE_SIZE;
             at += PAGE_SIZE) {
            if (at != machine_doorbell())
                writes += !store(at + PAGE_SIZE - sizeof(uint64_t), CODE_WORD) &&
                          fault_vector == VECTOR_GP;
            executions += !execute(at) && fault_vector == VECTOR_GP;
        }
    tap_value("hidden_pages", pages);
    tap_note("%lu pages hidden; refused: %lu reads, %lu writes, %lu executions", pages, pages,
             writes, executions);
    good &= pages != 0 && is_hidden(machine_doorbell()) && writes == pages - 1 &&
            executions == pages;
    tap_result(good, job->name, NULL);
}

/* ---- the log ---- */

static char text[LOG_SIZE];

static size_t read_whole_log(void)
{
    uint64_t in[HYPERCALL_REGISTERS] = {0}, position = 0;
    size_t length = 0;

    for (;;) {
        in[0] = HYPERCALL_LOG;
        in[1] = position;
        hypercall_whole(in);
        if ((int64_t)in[0] <= 0 || length + in[0] > sizeof(text))
            return length;
        const uint64_t words[] = {in[2], in[3], in[4], in[5]};
        for (uint64_t i = 0; i < in[0]; i++)
            text[length++] = ((const char *)words)[i];
        position = in[1];
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What reads as a hexadecimal number of some length must not lie in the hypervisor's memory. The
 * log is taken before memory is looked at: that is logged, with the addresses that the guest chose.
 */
void test_secrets(const struct job *job)
{
    bool good = true;
    size_t length = under_pmuvisor() ? read_whole_log() : 0;
    uint64_t numbers = 0;

    if (length == 0) {
        tap_skip(job->name, "there is no log to read");
        return;
    }
    (void)find_hidden(&good);
    for (size_t i = 0; i < length;) {
        uint64_t value = 0;
        size_t first = i;
        for (; i < length && hex_digit(text[i]) >= 0; i++)
            value = value << 4 | (uint64_t)hex_digit(text[i]);
        if (i - first >= HEX_DIGITS_MIN) {
            numbers++;
            if (is_hidden(value)) {
                tap_note("the log has the hypervisor's address 0x%lx", value);
                good = false;
            }
        }
        i += i == first;
    }
    tap_note("%lu bytes of log with %lu numbers", length, numbers);
    tap_result(good && numbers != 0 && ranges != 0, job->name, NULL);
}
