/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memory.c: selfmod: code that writes itself anew; shared: two processes that count in one page;
 * files: a folder of files, mapped, renamed and listed.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define NUMBER_AT 1
#define ADDITIONS 200
#define FILES 6

/* mov $NUMBER, %eax; jz to the end, which depends on the flags of the caller; inc %eax; ret */
static const unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xc0, 0xc3};

int run_selfmod(void)
{
    unsigned char *place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t sum = 0;

    must(place != MAP_FAILED, "mmap");
    memcpy(place, code, sizeof(code));
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t number = work(i, 10) % 3;

        memcpy(place + NUMBER_AT, &number, sizeof(number));
        sum = sum * 31 + ((uint32_t (*)(void))place)();
    }
    printf("selfmod: %u\n", sum);
    return 0;
}

int run_shared(void)
{
    volatile uint32_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                   -1, 0);
    pid_t child;

    must(page != MAP_FAILED, "mmap");
    child = fork();
    must(child >= 0, "fork");
    for (unsigned i = 0; i < ADDITIONS; i++) {
        __atomic_fetch_add(&page[0], work(i, 200) % 2 + 1, __ATOMIC_SEQ_CST);
        page[1] = page[1] * 31 + (child == 0);
    }
    if (child == 0)
        _exit(0);
    must(waitpid(child, NULL, 0) == child, "waitpid");
    printf("shared: %u\n", page[0]);
    varies("order %u", page[1]);
    return 0;
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static int not_hidden(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int run_files(void)
{
    char folder[] = "/tmp/files-XXXXXX", name[32], other[32];
    struct dirent **found = NULL;
    struct stat about;
    int count;

    must(mkdtemp(folder) != NULL && chdir(folder) == 0, "mkdtemp");
    varies("folder %s", folder);
    for (unsigned i = 0; i < FILES; i++) {
        int fd;
        char *bytes;

        snprintf(name, sizeof(name), "file%u", i);
        fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        must(fd >= 0 && ftruncate(fd, (off_t)(i + 1) * PAGE) == 0, "open");
        bytes = mmap(NULL, (i + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(bytes != MAP_FAILED, "mmap");
        memset(bytes, 'a' + (int)i, (i + 1) * PAGE);
        munmap(bytes, (i + 1) * PAGE);
        must(pread(fd, other, 1, PAGE - 1) == 1 && other[0] == 'a' + (int)i, "pread");
        close(fd);
        snprintf(other, sizeof(other), "other%u", FILES - i);
        must(rename(name, other) == 0, "rename");
    }
    count = scandir(".", &found, not_hidden, by_name);
    for (int i = 0; i < count; i++) {
        must(stat(found[i]->d_name, &about) == 0 && unlink(found[i]->d_name) == 0, "stat");
        printf("files: %s has %ld\n", found[i]->d_name, (long)about.st_size);
    }
    must(chdir("/") == 0 && rmdir(folder) == 0, "rmdir");
    return count != FILES;
}
