/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scheduled NMIs. (being written)
 */
#ifndef TB_INJECT_H
#define TB_INJECT_H
#include <cstdint>
class Injector {
public:
    uint64_t budget(unsigned, uint64_t) const { return ~uint64_t{0}; }
};
#endif
