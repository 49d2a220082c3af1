/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A refusal says why PMUvisor will not start. It consists of one clear line and the kind of
 * trouble. Firmware gets the kind as a status. A check fills a refusal instead of printing, and its
 * caller prints the line.
 */
#pragma once

#include <stdbool.h>

enum refusal_kind {
    REFUSE_UNSUPPORTED, /* EFI_UNSUPPORTED: the processor or the firmware lacks something */
    REFUSE_BAD_OPTION,  /* EFI_INVALID_PARAMETER: option is unknown, too long or has a bad value */
    REFUSE_NOT_FOUND,   /* EFI_NOT_FOUND: a file is missing */
    REFUSE_BAD_FILE,    /* EFI_LOAD_ERROR: a file exists but cannot be used */
    REFUSE_NO_MEMORY,   /* EFI_OUT_OF_RESOURCES: there is not enough memory */
};

struct refusal {
    enum refusal_kind kind;
    char line[384];
};

/* Fills *r and returns false, so that a check can end in `return refuse(r, ...)`. The line has no
 * newline. It says what was checked, what was found, what was wanted, and what to do. */
bool refuse(struct refusal *r, enum refusal_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
