/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether this is the test build (make TEST=1), in which the guest can raise host NMIs and more by
 * hypercall. No other build has any of it.
 */
#ifndef PMUVISOR_TEST_HOOKS_H
#define PMUVISOR_TEST_HOOKS_H

#ifdef TEST
#define TEST_HOOKS 1
#else
#define TEST_HOOKS 0
#endif

#endif
