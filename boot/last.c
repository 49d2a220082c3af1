/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes the log of a failed start to a file beside the image. A refused start writes its own log.
 * A run that fails later leaves its log in memory. A warm reset keeps this memory, and the next
 * start writes the log from there.
 */
#include <string.h>

#include "bits.h"
#include "boot/boot.h"
#include "console/log.h"
#include "console/log_ring.h"

#define FILE_NAME "pmuvisor.log"

static bool has_kept_log(uint64_t address)
{
    return log_ring_check((const struct log_ring *)(uintptr_t)address) != LOG_RING_NONE;
}

static bool write_log_file(const struct log_ring *ring, const char *before)
{
    struct range pieces[] = {{(uintptr_t)before, strlen(before)}, {0}, {0}};

    log_ring_get_text(ring, &pieces[1]);
    return file_save(FILE_NAME, pieces, LENGTH_OF(pieces));
}

static bool crashed; /* the last run left a log */

void save_last_log(void)
{
    struct log_ring *ring = (struct log_ring *)(uintptr_t)memory_scan(
        POOL_ALIGNMENT, POOL_LOG_OFFSET, sizeof(*ring), has_kept_log);

    crashed = ring != NULL;
    if (!crashed)
        return;
    bool saved = write_log_file(
        ring, log_ring_check(ring) == LOG_RING_DAMAGED
                  ? "The memory that held this log was changed since: parts may be "
                    "wrong.\n"
                  : "");
    log_printf(saved ? "the last run's log is in " FILE_NAME "\n"
                     : "the last run's log is in memory and cannot be written to " FILE_NAME
                       ": free some space on the volume of pmuvisor.efi\n");
    if (saved)
        log_ring_end(ring);
    memory_free((uintptr_t)ring, sizeof(*ring));
}

void save_refused_start_log(void)
{
    if (!crashed && !write_log_file(log_get_ring(), ""))
        log_printf("what was said here cannot be written to " FILE_NAME "\n");
}
