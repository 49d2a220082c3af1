/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The maps of the memory trace where memory is huge: what denies reads has a bound, in pages and so
 * in time; and what root mode may take for the guest's memory ends where memory does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "experiments/memory/hypervisor/state.h"
#include "pool.h"

#define GIB (1ULL << 30)
#define MOST (256 * GIB)  /* in small pages; memtrace.md */
#define TABLES_OF_GIB 512 /* of small pages */
#define POOL_PAGES 4096   /* for the map, root mode's view, and small pages of some GiB */
#define HUGE_TOP (4096 * GIB)
#define ADDRESS_BITS 46

static struct range pool;
static struct boot_info boot = {.memory_top = HUGE_TOP};
static struct cpu cpu = {.boot = &boot};

/* Nothing of a guest's is cached here. */
void flush_guest_translations(void) {}

/* What a processor with a ring would come to, which none does here. */
void vmcs_access_failed(uint32_t field, bool write)
{
    fail_msg("%u %d", field, write);
    abort();
}

static uint64_t pages_for(uint32_t mode, uint64_t top)
{
    struct boot_info bi = {.memory_top = top};

    ring_options.memory = mode;
    return memory_map_pages(&bi, 0);
}

static void test_pages(void **state)
{
    (void)state;
    for (uint32_t mode = MEMTRACE_READS; mode <= MEMTRACE_ALL; mode++) {
        uint64_t most = pages_for(mode, MOST), next = pages_for(mode, MOST + GIB);

        assert_true(most >= MOST / GIB * TABLES_OF_GIB);
        assert_true(most - pages_for(mode, MOST - GIB) >= TABLES_OF_GIB);
        assert_true(next - most <= 4); /* the tables above them */
        assert_true(pages_for(mode, HUGE_TOP) < most + 4 * HUGE_TOP / GIB);
    }
    assert_true(pages_for(MEMTRACE_WRITES, HUGE_TOP) < 2 * HUGE_TOP / GIB);
}

static void test_memory_ends(void **state)
{
    (void)state;
    assert_ptr_equal(memory_find_guest(&cpu, HUGE_TOP - 8), memory_host_address(HUGE_TOP - 8));
    assert_null(memory_find_guest(&cpu, HUGE_TOP));
    assert_null(memory_find_guest(&cpu, EPT_COPY_HOST_LIMIT - 8));
    assert_null(memory_find_guest(&cpu, ~0ULL));
}

/* Firmware lists none of two processors. */
static void test_no_ring(void **state)
{
    struct boot_info bi = {.settings.processors = 2};
    struct cpu unlisted = {.boot = &bi};

    (void)state;
    ring_options.memory = MEMTRACE_ALL;
    assert_int_equal(ring_readable(&bi), 0);
    assert_false(ring_setup(&unlisted));
}

/* All memory is a firmware's write-back by default, what is above it too. */
static int start(void **state)
{
    (void)state;
    pool = pool_new(POOL_PAGES);
    page_pool_init(pool);
    struct mtrr_state mtrr = {.default_type = 1ULL << 11 | MEMORY_WB,
                              .physical_address_bits = ADDRESS_BITS};
    struct ept_request q = {.mtrr = &mtrr,
                            .address_bits = ADDRESS_BITS,
                            .page_1g = true,
                            .page_2m = true,
                            .top = HUGE_TOP};
    cpu.ept_root = ept_build(&q);
    return cpu.ept_root == 0;
}

static int stop(void **state)
{
    (void)state;
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_no_ring),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
