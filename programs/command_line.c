/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 4096 /* of Linux on x86: 2048 */

void command_line_word(const char *key, const char *fallback, char *value, size_t size)
{
    char line[LINE_SIZE] = "", *rest = NULL;
    const char *given = getenv(key);
    size_t length = strlen(key);
    FILE *file = given == NULL ? fopen("/proc/cmdline", "re") : NULL;

    snprintf(value, size, "%s", given != NULL ? given : fallback);
    if (file == NULL)
        return;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    for (char *word = strtok_r(line, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest))
        if (strncmp(word, key, length) == 0 && word[length] == '=')
            snprintf(value, size, "%s", word + length + 1);
}
