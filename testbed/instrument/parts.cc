// SPDX-License-Identifier: BSD-2-Clause
//
// The list of parts, and which of them hear anything.
#include "knobs.h"
#include "part.h"

#define PART(name, when, wanted) Part &name##_part();
#include "parts.inc"
#undef PART

namespace {

std::vector<Part *> listening;

}  // namespace

const std::vector<Part *> &parts() { return listening; }

void parts_take_knobs()
{
    static const std::map<std::string, Part &(*)()> all = {
#define PART(name, when, wanted) {#name, name##_part},
#include "parts.inc"
#undef PART
    };

    listening.clear();
    for (const auto &[name, value] : knobs().parts) {
        Part &part = all.at(name)();
        part.value = value;
        listening.push_back(&part);
    }
}

unsigned parts_watch(const Processor &p, bool root)
{
    unsigned watch = 0;

    for (Part *part : parts())
        watch |= part->watch(p, root);
    return watch;
}
