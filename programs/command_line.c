/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 4096 /* of Linux on x86: 2048, and as many words */

void command_line_text(char *text, size_t size)
{
    char line[LINE_SIZE] = "";
    const char *words = getenv(COMMAND_LINE_WORDS);
    FILE *file = fopen("/proc/cmdline", "re");

    if (file != NULL) {
        if (fgets(line, sizeof(line), file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    snprintf(text, size, "%.*s%s%s", (int)strcspn(line, "\n"), line, words != NULL ? " " : "",
             words != NULL ? words : "");
}

void command_line_word(const char *key, const char *fallback, char *value, size_t size)
{
    char line[LINE_SIZE], *rest = NULL;
    const char *given = getenv(key);
    size_t length = strlen(key);

    snprintf(value, size, "%s", given != NULL ? given : fallback);
    if (given != NULL)
        return;
    command_line_text(line, sizeof(line));
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        if (strncmp(word, key, length) == 0 && word[length] == '=')
            snprintf(value, size, "%s", word + length + 1);
}
