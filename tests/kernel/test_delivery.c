/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exceptions whose stack is in memory hidden from the guest, so that their delivery exits: the
 * guest has to get what a #GP during delivery makes of them. SDM Vol. 3, "Interrupt 8 - Double
 * Fault Exception (#DF)", conditions for a double fault.
 */
#include "kernel.h"

#define PAGE_MASK 0xfffULL
#define INSIDE 0x800 /* what is pushed stays inside the page */
#define NOT_CANONICAL 0x800000000000ULL

/* 0: there is none, and the test was skipped. */
static uint64_t hidden_stack(const struct job *job)
{
    uint64_t hidden = under_pmuvisor() ? hidden_address() : 0;

    if (hidden == 0)
        tap_skip(job->name, "no memory is hidden from this guest");
    return hidden == 0 ? 0 : (hidden & ~PAGE_MASK) + INSIDE;
}

static void invalid_opcode(void)
{
    static const uint8_t ud2[] = {0x0f, 0x0b};

    (void)call_try(ud2, 0);
}

static void breakpoint(void)
{
    static const uint8_t int3[] = {0xcc};

    (void)call_try(int3, 0);
}

static void general_protection(void)
{
    uint64_t value;

    (void)read_try(NOT_CANONICAL, &value);
}

void test_delivery(const struct job *job)
{
    static const struct {
        unsigned vector, wanted;
        void (*raise)(void);
    } cases[] = {
        {VECTOR_UD, VECTOR_GP, invalid_opcode},
        {VECTOR_BP, VECTOR_GP, breakpoint},
        {VECTOR_GP, VECTOR_DF, general_protection},
    };
    uint64_t stack = hidden_stack(job);
    bool right = true;

    if (stack == 0)
        return;
    for (unsigned i = 0; i < LENGTH_OF(cases); i++) {
        uint64_t before = fault_count;

        cpu_exception_stack(cases[i].vector, stack);
        cases[i].raise();
        cpu_exception_stack(cases[i].vector, 0);
        right = right && fault_count == before + 1 && fault_vector == cases[i].wanted;
        if (!right) {
            tap_note("vector %u: %lu faults, the last of vector %lu, wanted one of vector %u",
                     cases[i].vector, fault_count - before, fault_vector, cases[i].wanted);
            break;
        }
    }
    tap_result(right, job->name, right ? NULL : "another exception arrived");
}

/* Ends the run: the machine is reset. */
void test_shutdown(const struct job *job)
{
    uint64_t stack = hidden_stack(job);

    if (stack == 0)
        return;
    cpu_exception_stack(VECTOR_DF, stack);
    cpu_exception_stack(VECTOR_GP, stack);
    general_protection();
    cpu_exception_stack(VECTOR_GP, 0);
    cpu_exception_stack(VECTOR_DF, 0);
    tap_result(false, job->name, "the processor did not shut down");
}
