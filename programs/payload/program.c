/* SPDX-License-Identifier: BSD-2-Clause
 * program.c: the job `program`: somebody's own program, as run-qemu.sh's --program has put it into
 * the image. Runs the commands of /program/commands, one after the other, in an empty folder, and
 * hands the files that they leave there over to the emulator; elsewhere nobody gets them. The word
 * pmv.args=A,B of the kernel's command line has more words for the first command.
 */
#include "guest_file.h"
#include "payload.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A word a line; an empty line ends a command. */
#define COMMANDS "/program/commands"
#define FOLDER "/out"
#define WORDS_MAX 256
#define ARGUMENTS_SIZE 2048 /* the emulator gives no more */

/* Puts those of pmv.args at the end of the command. */
static size_t add_arguments(char *words[], size_t count)
{
    static char text[ARGUMENTS_SIZE];
    char *rest = text;

    command_line_word("pmv.args", "", text, sizeof(text));
    for (char *word; count < WORDS_MAX && (word = next_word(&rest, ",")) != NULL;)
        words[count++] = word;
    return count;
}

/* The first command that fails is the last one. */
static int run_commands(char *text)
{
    char *words[WORDS_MAX + 1];
    size_t count = 0;
    bool first = true;
    int status = 0;

    for (char *line = text; line != NULL && status == 0;) {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end++ = '\0';
        if (line[0] != '\0' && count < WORDS_MAX)
            words[count++] = line;
        if ((line[0] == '\0' || end == NULL) && count > 0) {
            count = first ? add_arguments(words, count) : count;
            first = false;
            words[count] = NULL;
            count = 0;
            status = run_program(NULL, words);
            printf("program: status=%d command=", status);
            for (char **word = words; *word != NULL; word++)
                printf("%s%s", *word, word[1] != NULL ? " " : "\n");
        }
        line = end;
    }
    return status;
}

static bool hand_over(const char *name)
{
    static char piece[GUEST_FILE_PIECE];
    FILE *file = fopen(name, "re");
    size_t got;

    if (file == NULL)
        return false;
    do {
        got = fread(piece, 1, sizeof(piece), file);
        guest_file(name, piece, got);
    } while (got == sizeof(piece));
    return fclose(file) == 0;
}

static void hand_over_all(void)
{
    DIR *folder = opendir(".");
    struct dirent *entry;
    struct stat about;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (stat(entry->d_name, &about) == 0 && S_ISREG(about.st_mode)) {
            printf("program: file=%s bytes=%lld%s\n", entry->d_name, (long long)about.st_size,
                   hand_over(entry->d_name) ? "" : " error=\"cannot be read\"");
        } else if (entry->d_name[0] != '.') {
            printf("program: file=%s error=\"no file, so it stays in the guest\"\n", entry->d_name);
        }
    }
    if (folder != NULL)
        closedir(folder);
}

JOB(program)
{
    int status;
    char *text;

    perf_lift_limits();
    setenv("PAGER", "cat", 1);
    mkdir(FOLDER, 0755);
    text = read_text(COMMANDS);
    if (text == NULL || chdir(FOLDER) != 0)
        return fail_job("program", text == NULL ? COMMANDS : FOLDER, errno);
    status = run_commands(text);
    hand_over_all();
    return status;
}
