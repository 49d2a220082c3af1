/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What becomes of a #GP during event delivery: each type and vector against the SDM's table of
 * double-fault conditions, written down here once more by number.
 * SDM Vol. 3, "Interrupt 8 - Double Fault Exception (#DF)"; "IDT-Vectoring Information Field".
 */
#include "unit.h"

#include "vmx/exit/outcome.h"

#define VALID (UINT32_C(1) << 31)
#define ERROR_CODE (UINT32_C(1) << 11)
#define UNDEFINED_12 (UINT32_C(1) << 12)

static const bool contributory_or_page_fault[32] = {
    [0] = true,  [10] = true, [11] = true, [12] = true,
    [13] = true, [14] = true, [20] = true, [21] = true,
};

TEST(test_nothing_being_delivered)
{
    for (uint32_t vector = 0; vector < 256; vector++)
        assert_int_equal(classify_delivery_gp(3u << 8 | vector), DELIVERY_GP);
}

TEST(test_hardware_exceptions)
{
    for (uint32_t vector = 0; vector < 32; vector++) {
        enum delivery_fault wanted = vector == 8                          ? DELIVERY_SHUTDOWN
                                     : contributory_or_page_fault[vector] ? DELIVERY_DOUBLE_FAULT
                                                                          : DELIVERY_GP;
        assert_int_equal(classify_delivery_gp(VALID | 3u << 8 | vector), wanted);
        assert_int_equal(classify_delivery_gp(VALID | ERROR_CODE | UNDEFINED_12 | 3u << 8 | vector),
                         wanted);
    }
}

/* External interrupt, NMI, INT n, privileged software exception, INT3 and INTO are benign. */
TEST(test_other_events)
{
    static const uint32_t types[] = {0, 2, 4, 5, 6};

    for (unsigned i = 0; i < COUNT(types); i++)
        for (uint32_t vector = 0; vector < 256; vector++)
            assert_int_equal(classify_delivery_gp(VALID | types[i] << 8 | vector), DELIVERY_GP);
}
