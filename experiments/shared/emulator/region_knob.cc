// SPDX-License-Identifier: BSD-2-Clause
//
// Reads the knob's value.
#include "region_knob.h"

#include <sstream>

#include "knobs.h"

const char *region_knob_wanted(const std::string &text);

bool region_knob_parse(const std::string &text, RegionKnob *knob)
{
    std::istringstream words(text);
    std::string regions;
    uint64_t first, last;

    if (!(words >> regions) || !knob_range(regions, &first, &last) || last > UINT32_MAX ||
        !std::getline(words >> std::ws, knob->path))
        return false;
    knob->first = static_cast<uint32_t>(first);
    knob->last = static_cast<uint32_t>(last);
    return true;
}

const char *region_knob_wanted(const std::string &text)
{
    RegionKnob knob;

    return region_knob_parse(text, &knob) ? nullptr : "REGION[-REGION] PATH";
}
