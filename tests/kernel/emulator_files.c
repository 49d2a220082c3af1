/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Files that the emulator writes for the guest (the knob guest_files), in pieces, and names that it
 * has to ignore; and the guest's words. testbed/README.md, "Files of the guest" and "Words".
 */
#include "emulator.h"

#include "console/log.h"

#define MARKER_WORDS 6u
#define MARKER_FILE 7u
#define PIECE_MAX (1u << 20)
#define ROOM 63

static void hand_over(const char *name, const void *bytes, uint32_t count)
{
    __asm__ volatile("xchg %%bx, %%bx"
                     :
                     : "a"(count), "c"(MARKER_FILE), "d"(bytes), "S"(name)
                     : "memory");
}

static uint64_t ask(char *room, uint32_t size)
{
    uint64_t length = size;

    __asm__ volatile("xchg %%bx, %%bx" : "+a"(length) : "c"(MARKER_WORDS), "d"(room) : "memory");
    return length;
}

void emulator_files(void)
{
    static uint8_t bytes[3 * PAGE_SIZE];
    static char room[ROOM + 2]; /* one byte after the room, and the text's end */

    check_about("files: ", "");
    for (unsigned n = 0; n < sizeof(bytes); n++)
        bytes[n] = (uint8_t)n;
    hand_over("words", "one ", 4);
    hand_over("pages", bytes + 1, sizeof(bytes) - 1);
    hand_over("words", "two", 3);
    hand_over("empty", "", 0);
    hand_over("../up", "no", 2);
    hand_over("..", "no", 2);
    hand_over("a/b", "no", 2);
    hand_over("", "no", 2);
    hand_over("0123456789abcdef0123456789abcdef.", "no", 2);
    hand_over("long", bytes, PIECE_MAX + 1);
    for (unsigned n = 0; n <= ROOM; n++)
        room[n] = 'x';
    uint64_t length = ask(room, ROOM);
    log_printf("emulator: words=\"%s\"\n", room);
    check_that("the words' length", length < ROOM && room[length] == '\0');
    for (unsigned n = (unsigned)length; n < ROOM; n++)
        check_equal("the room after the words", (uint8_t)room[n], 0);
    check_equal("the byte after the room", (uint8_t)room[ROOM], 'x');
}
