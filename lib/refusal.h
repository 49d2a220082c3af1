/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why PMUvisor will not start: one clear line and the kind of trouble, carried back to firmware.
 * Every check up to the point of no return fills one of these instead of printing.
 */
#pragma once

#include <stdbool.h>

enum refusal_kind {
    REFUSE_UNSUPPORTED, /* the processor or the firmware lacks something   -> EFI_UNSUPPORTED */
    REFUSE_BAD_OPTION, /* an option is unknown, too long or has a bad value -> EFI_INVALID_PARAMETER
                        */
    REFUSE_NOT_FOUND,  /* a file is missing                               -> EFI_NOT_FOUND */
    REFUSE_BAD_FILE,   /* a file is there but cannot be used              -> EFI_LOAD_ERROR */
    REFUSE_NO_MEMORY,  /* memory does not suffice                         -> EFI_OUT_OF_RESOURCES */
};

struct refusal {
    enum refusal_kind kind;
    char line[384];
};

/* Fills *r (a line that says what, found, wanted, what to do; no newline) and returns false, so
 * that a check can end in `return refuse(r, ...)`. */
bool refuse(struct refusal *r, enum refusal_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
