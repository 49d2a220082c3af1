// SPDX-License-Identifier: BSD-2-Clause
//
// Both ends, and the button, are timers of Bochs' own clock, which cost nothing until they fire.
#include "bochs.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "knobs.h"
#include "limits.h"
#include "machine.h"
#include "pc_system.h"

namespace {

// A text on COM1, and what is to come so many ticks after it.
struct Awaited {
    std::string text;  // empty: nothing any more
    std::string sent;  // the last bytes of COM1, no more than `text` has
    Bit64u ticks;
    void (*then)(void *);
};
Awaited end, button;
int limit_timer;  // 0: none
constexpr Bit64u MILLION = 1000000;

Bit64u number(const char *name)
{
    const char *value = std::getenv(name);

    return value ? std::strtoull(value, nullptr, 10) : 0;
}

void limit_reached(void *) { machine_end(END_LIMIT); }

void text_seen(void *) { machine_end(END_TEXT); }

void press(void *) { machine_press_reset(); }

int at(Bit64u tick, void (*then)(void *))
{
    Bit64u now = bx_pc_system.time_ticks();

    if (tick < now) {
        std::fprintf(stderr,
                     "testbed: a limit or a button of this run comes before it is forked\n");
        std::exit(EXIT_FAILURE);
    }
    return bx_pc_system.register_timer_ticks(&end, then, tick - now, false, true, "limit");
}

void see(Awaited &awaited, unsigned char byte, Bit64u tick)
{
    if (awaited.text.empty())
        return;
    awaited.sent += static_cast<char>(byte);
    if (awaited.sent.size() > awaited.text.size())
        awaited.sent.erase(0, 1);
    if (awaited.sent != awaited.text)
        return;
    awaited.text.clear();
    at(tick + awaited.ticks, awaited.then);
}

}  // namespace

void limits_start()
{
    Bit64u limit = number("TB_LIMIT");

    const char *until = std::getenv("TB_UNTIL");
    end = {until ? until : "", "", number("TB_UNTIL_TICKS"), text_seen};
    button = {knobs().reset_text, "", knobs().reset_after * MILLION, press};
    // A server's own, in its child.
    if (limit_timer > 0) {
        bx_pc_system.deactivate_timer(static_cast<unsigned>(limit_timer));
        bx_pc_system.unregisterTimer(static_cast<unsigned>(limit_timer));
    }
    limit_timer = limit > 0 ? at(limit, limit_reached) : 0;
}

void limits_serial(unsigned char byte, uint64_t tick)
{
    see(end, byte, tick);
    see(button, byte, tick);
}
