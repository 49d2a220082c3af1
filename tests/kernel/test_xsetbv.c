/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `xsetbv`: the instruction by value, index, privilege level and CR4.OSXSAVE: whether it
 * completes, by which exception it does not, and what XCR0 is afterwards. Reports of hypervisors
 * that accept a value which the processor refuses, or the reverse, are about these cases.
 * SDM Vol. 2, "XSETBV"; Vol. 1, "Enabling the XSAVE Feature Set and XSAVE-Enabled Features".
 */
#include "fuzz.h"
#include "kernel.h"

#include "console/log.h"

#define X87 BIT(0)
#define SSE BIT(1)
#define AVX BIT(2)
#define BNDREGS BIT(3)
#define OPMASK BIT(5)
#define AVX_512 (OPMASK | BIT(6) | BIT(7))
#define PT BIT(8) /* of IA32_XSS, not of XCR0 */
#define IGNORED BIT(32)
#define LEAF_XSAVE 0x0d

static const struct xsetbv_case {
    const char *name;
    uint64_t value, index;
    enum { DONE = 0, UD = VECTOR_UD, GP = VECTOR_GP } wanted;
    enum { PLAIN, USER, NO_OSXSAVE, LOCKED, HIGH_HALVES } how;
} cases[] = {
    {"x87", X87, 0, DONE, PLAIN},
    {"sse", X87 | SSE, 0, DONE, PLAIN},
    {"avx", X87 | SSE | AVX, 0, DONE, PLAIN},
    {"avx-512", X87 | SSE | AVX | AVX_512, 0, DONE, PLAIN},
    {"high-halves", X87 | SSE, IGNORED, DONE, HIGH_HALVES},
    {"nothing", 0, 0, GP, PLAIN},
    {"no-x87", SSE, 0, GP, PLAIN},
    {"avx-no-sse", X87 | AVX, 0, GP, PLAIN},
    {"avx-512-part", X87 | SSE | AVX | OPMASK, 0, GP, PLAIN},
    {"avx-512-no-avx", X87 | SSE | AVX_512, 0, GP, PLAIN},
    {"mpx-half", X87 | SSE | BNDREGS, 0, GP, PLAIN},
    {"supervisor", X87 | SSE | PT, 0, GP, PLAIN},
    {"bit-63", X87 | BIT(63), 0, GP, PLAIN},
    {"index-1", X87, 1, GP, PLAIN},
    {"user", X87, 0, GP, USER},
    {"no-osxsave", X87, 0, UD, NO_OSXSAVE},
    {"locked", X87, 0, UD, LOCKED},
};

/* Gives the exception's vector; DONE: there was none. */
static uint64_t execute(const struct xsetbv_case *c)
{
    struct fuzz_op op = {.cpl = c->how == USER ? 3 : 0};
    uint64_t high = c->how == HIGH_HALVES ? IGNORED : 0;

    fuzz_begin(&op);
    fuzz_in.gpr[RCX] = c->index;
    fuzz_in.gpr[RAX] = (uint32_t)c->value | high;
    fuzz_in.gpr[RDX] = c->value >> 32 | high;
    if (c->how == LOCKED)
        CODE(&op, 0xf0, 0x0f, 0x01, 0xd1);
    else
        CODE(&op, 0x0f, 0x01, 0xd1);
    if (c->how == NO_OSXSAVE)
        write_cr4(fuzz_base.cr4 & ~(uint64_t)CR4_OSXSAVE);
    bool done = fuzz_go(&op);
    write_cr4(fuzz_base.cr4);
    return done ? DONE : fuzz_out.vector;
}

void test_xsetbv(const struct job *job)
{
    struct cpuid_result leaf = cpuid(LEAF_XSAVE, 0);
    uint64_t all = leaf.eax | (uint64_t)leaf.edx << 32;
    bool good = true;

    fuzz_setup();
    uint64_t before = read_xcr0();
    for (unsigned i = 0; i < LENGTH_OF(cases); i++) {
        const struct xsetbv_case *c = &cases[i];
        uint64_t first = X87 | SSE, wanted = c->wanted == DONE && c->value & ~all ? GP : c->wanted;
        write_xcr0(first);
        uint64_t vector = execute(c), now = read_xcr0();
        log_printf("xsetbv: name=%s case=%s vector=%lu error=%lu xcr0=0x%lx\n", job->name, c->name,
                   vector, vector == DONE ? 0 : fuzz_out.error, now);
        good &= vector == wanted && now == (wanted == DONE ? c->value : first);
    }
    write_xcr0(before);
    fuzz_end();
    tap_result(good, job->name, NULL);
}
