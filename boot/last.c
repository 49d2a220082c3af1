/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes the log of a failed start to a file beside the image. A refused start writes its own log.
 * A start that fails later leaves its log in memory that a warm reset keeps, and the next start
 * writes that log.
 */
#include <string.h>

#include "bits.h"
#include "boot/boot.h"
#include "console/kept.h"
#include "console/log.h"

#define FILE_NAME "pmuvisor.log"
static bool is_kept(uint64_t address)
{
    return kept_look((const struct log_ring *)(uintptr_t)address) != KEPT_NONE;
}

static struct range bytes(const char *text, uint64_t length)
{
    return (struct range){(uintptr_t)text, length};
}

static bool save(const struct log_ring *ring, const char *before)
{
    struct kept_piece pieces[2];

    kept_text(ring, pieces);
    const struct range parts[] = {bytes(before, strlen(before)),
                                  bytes(pieces[0].text, pieces[0].length),
                                  bytes(pieces[1].text, pieces[1].length)};
    return file_save(FILE_NAME, parts, LENGTH_OF(parts));
}

static bool crashed; /* the last run left a log */

void last_save(void)
{
    struct log_ring *ring = (struct log_ring *)(uintptr_t)memory_find(
        POOL_ALIGNMENT, POOL_LOG_OFFSET, sizeof(*ring), is_kept);

    crashed = ring != NULL;
    if (!crashed)
        return;
    bool saved = save(ring, kept_look(ring) == KEPT_DAMAGED
                                ? "The memory that held this log was changed since: parts may be "
                                  "wrong.\n"
                                : "");
    log_printf(saved ? "the last run's log is in " FILE_NAME "\n"
                     : "the last run's log is in memory and cannot be written to " FILE_NAME
                       ": free some space on the volume of pmuvisor.efi\n");
    if (saved)
        kept_end(ring);
    memory_give_back((uintptr_t)ring, sizeof(*ring));
}

void last_refused(void)
{
    if (!crashed && !save(log_kept(), ""))
        log_printf("what was said here cannot be written to " FILE_NAME "\n");
}
