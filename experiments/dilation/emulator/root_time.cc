// SPDX-License-Identifier: BSD-2-Clause
//
// What the knob's value may be. Knows no Bochs.
#include <sstream>

#include "root_time.h"

const char *root_time_wanted(const std::string &value);

bool root_time_parse(const std::string &text, RootTime *time)
{
    std::istringstream words(text);
    std::string way, more;

    if (!(words >> way >> time->ticks) || words >> more || (way != "kept" && way != "taken"))
        return false;
    time->taken = way == "taken";
    return true;
}

const char *root_time_wanted(const std::string &value)
{
    RootTime time;

    return root_time_parse(value, &time) ? nullptr : "kept TICKS or taken TICKS";
}
