/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The fuzzer: random operations that a hostile or broken guest may do, each of which must neither
 * hurt the hypervisor nor give the guest something else than the processor would, but for the
 * documented differences (fuzz_differ.c). `fuzz:SEED:FIRST:COUNT` prints a hash of every STEP
 * operations (with a fourth number 1 the APIC's page is trapped); `fuzz:fine:...` for the last STEP
 * of them one of every FINE_STEP, `fuzz:verbose:...` the last FINE_STEP themselves.
 */
#include "fuzz.h"

#include "console/log.h"
#include "kernel.h"

#define STEP 4096
#define FINE_STEP 64
#define GOLDEN 0x9e3779b97f4a7c15ULL /* the generator is SplitMix64 */
#define NEAR 8

static const struct {
    const char *name;
    void (*run)(struct fuzz_op *op);
    unsigned weight;
} kinds[] = {
#define FUZZ_ROW(kind, name, function, weight) {name, fuzz_##function, weight},
    FUZZ_OPERATIONS(FUZZ_ROW)
#undef FUZZ_ROW
};

bool fuzz_guest, fuzz_shown;

uint64_t fuzz_random(struct fuzz_op *op)
{
    uint64_t x = op->random += GOLDEN;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

uint64_t fuzz_number(struct fuzz_op *op)
{
    uint64_t x = fuzz_random(op);

    switch (fuzz_below(op, 6)) {
    case 0:
        return x % 64;
    case 1:
        return BIT(x % 64);
    case 2:
        return BIT(x % 64) - NEAR + (x >> 8) % (2 * NEAR);
    case 3:
        return x & 1 ? ~0ULL : (uint32_t)~0;
    case 4:
        return (uint32_t)x;
    default:
        return x;
    }
}

void fuzz_level(struct fuzz_op *op, bool may_be_32)
{
    uint64_t x = fuzz_below(op, 100);

    op->cpl = x < 62 ? 0 : x < 90 ? 3 : x < 95 ? 1 : 2;
    op->code_32 = may_be_32 && (op->cpl == 0 || op->cpl == 3) && fuzz_chance(op, 12);
}

static void generate(struct fuzz_op *op, uint64_t seed, uint64_t number)
{
    unsigned total = 0, kind = 0;

    *op = (struct fuzz_op){.random = seed * HASH_PRIME ^ number * HASH_BASIS};
    for (unsigned i = 0; i < FUZZ_KINDS; i++)
        total += kinds[i].weight;
    unsigned pick = (unsigned)fuzz_below(op, total);
    while (pick >= kinds[kind].weight)
        pick -= kinds[kind++].weight;
    op->kind = kind;
    kinds[kind].run(op);
    if (!fuzz_guest)
        fuzz_differ(op);
}

static uint64_t hash_op(uint64_t hash, const struct fuzz_op *op)
{
    hash = hash_word(hash, op->vector | op->error << 8);
    hash = hash_word(hash, op->rip);
    hash = hash_word(hash, op->rflags);
    hash = hash_word(hash, op->cr2 ^ op->others << 1);
    for (unsigned i = 0; i < FUZZ_VALUES; i++)
        hash = hash_word(hash, op->value[i]);
    return hash;
}

/* Before it runs: what hangs the machine or resets it is the last one shown. */
void fuzz_show(const struct fuzz_op *op)
{
    log_printf("fuzz-run: kind=%s cpl=%u bits=%d subject=0x%lx detail=0x%lx code=",
               kinds[op->kind].name, op->cpl, op->code_32 ? 32 : 64, op->subject, op->detail);
    for (unsigned i = 0; i < op->length; i++)
        log_printf("%02x", op->code[i]);
    log_printf(" rflags=0x%lx", fuzz_in.rflags);
    for (unsigned i = RAX; i <= RDI; i++)
        log_printf("%c0x%lx", i == RAX ? ' ' : ',', i == RSP ? fuzz_in.rsp : fuzz_in.gpr[i]);
    log_printf("\n");
}

static void print(uint64_t number, const struct fuzz_op *op)
{
    log_printf("fuzz-op: number=%lu kind=%s subject=0x%lx detail=0x%lx hidden=%d vector=%lu "
               "error=0x%lx rip=0x%lx rflags=0x%lx cr2=0x%lx others=0x%lx",
               number, kinds[op->kind].name, op->subject, op->detail, op->hidden, op->vector,
               op->error, op->rip, op->rflags, op->cr2, op->others);
    for (unsigned i = 0; i < FUZZ_VALUES; i++)
        log_printf(" v%u=0x%lx", i, op->value[i]);
    log_printf("\n");
}

void test_fuzz(const struct job *job)
{
    uint64_t seed = job->number[0], first = job->number[1], end = first + job->number[2];
    uint64_t hash = HASH_BASIS, counts[FUZZ_KINDS] = {0}, vectors[EXCEPTIONS] = {0};
    bool verbose = job->word[0] == 'v', fine = job->word[0] == 'f';
    struct fuzz_op op;

    fuzz_guest = under_pmuvisor();
    fuzz_apic_trapped = job->number[3] & 1;
    fuzz_setup();
    for (uint64_t i = first; i < end; i++) {
        fuzz_shown = verbose && i + FINE_STEP >= end;
        generate(&op, seed, i);
        counts[op.kind]++;
        if (op.vector < EXCEPTIONS)
            vectors[op.vector]++;
        hash = hash_op(hash, &op);
        if (fuzz_shown)
            print(i, &op);
        uint64_t step = fine && i + STEP >= end ? FINE_STEP : STEP;
        if ((i + 1) % step == 0 || i + 1 == end) {
            log_printf("fuzz-hash: seed=%lu end=%lu hash=%08x\n", seed, i + 1, (uint32_t)hash);
            hash = HASH_BASIS;
        }
    }
    fuzz_end();
    log_printf("fuzz: seed=%lu first=%lu operations=%lu late=%lu", seed, first, end - first,
               fuzz_late);
    for (unsigned i = 0; i < FUZZ_KINDS; i++)
        log_printf(" %s=%lu", kinds[i].name, counts[i]);
    for (unsigned i = 0; i < EXCEPTIONS; i++)
        if (vectors[i] != 0)
            log_printf(" vector%u=%lu", i, vectors[i]);
    log_printf("\n");
    if (!fuzz_guest)
        fuzz_differences();
    tap_result(true, job->name, NULL);
}
