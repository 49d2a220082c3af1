/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The value of a knob that writes a file of some regions: REGION[-REGION] PATH. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <string>

struct RegionKnob {
    std::string path; /* empty: the knob is not set */
    uint32_t first = 0;
    uint32_t last = 0;

    bool has(uint32_t id) const { return !path.empty() && id >= first && id <= last; }
};

/* False: the text is no such value. */
bool region_knob_parse(const std::string &text, RegionKnob *knob);
