// SPDX-License-Identifier: BSD-2-Clause
//
// Both ends are timers of Bochs' own clock, which cost nothing until they fire.
#include "bochs.h"

#include <cstdlib>
#include <string>

#include "limits.h"
#include "machine.h"
#include "pc_system.h"

namespace {

std::string text;
std::string sent;  // the last bytes of COM1, no more than `text` has
Bit64u ticks_after;

Bit64u number(const char *name)
{
    const char *value = std::getenv(name);

    return value ? std::strtoull(value, nullptr, 10) : 0;
}

void limit_reached(void *)
{
    machine_end(END_LIMIT);
}

void text_seen(void *)
{
    machine_end(END_TEXT);
}

void end_after(Bit64u ticks, void (*how)(void *))
{
    bx_pc_system.register_timer_ticks(&text, how, ticks, false, true, "limit");
}

}  // namespace

void limits_start()
{
    Bit64u limit = number("TB_LIMIT"), now = bx_pc_system.time_ticks();

    if (const char *until = std::getenv("TB_UNTIL"))
        text = until;
    ticks_after = number("TB_UNTIL_TICKS");
    if (limit > 0)
        end_after(limit > now ? limit - now : 0, limit_reached);
}

void limits_serial(unsigned char byte)
{
    if (text.empty())
        return;
    sent += static_cast<char>(byte);
    if (sent.size() > text.size())
        sent.erase(0, 1);
    if (sent != text)
        return;
    text.clear();
    end_after(ticks_after, text_seen);
}
