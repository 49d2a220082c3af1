/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The knob `root_time WAY TICKS`: what the guest's clock shows of the time in root mode. Knows no
 * Bochs.
 */
#pragma once

#include <cstdint>
#include <string>

struct RootTime {
    /* taken: root mode's own ticks are taken out of the guest's TSC. kept: they stay. */
    bool taken = false;
    /* What passes for the guest with each exit besides. */
    uint32_t ticks = 0;
};

/* False: the text is none. */
bool root_time_parse(const std::string &text, RootTime *time);
