/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hand_over.c: see hand_over.h.
 */
#include "hand_over.h"

#include "programs/guest_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool hand_over_file(const char *name, const char *path)
{
    static char piece[GUEST_FILE_PIECE];
    FILE *file = fopen(path, "re");
    bool good = false;

    if (file != NULL) {
        size_t got;

        do {
            got = fread(piece, 1, sizeof(piece), file);
            good = !ferror(file);
            if (good)
                guest_file(name, piece, got);
        } while (good && got == sizeof(piece));
    }
    if (!good)
        printf("hand_over: error=\"%s: %s\"\n", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    return good;
}
