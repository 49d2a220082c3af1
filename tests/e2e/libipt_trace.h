/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libipt_trace.h: for programs of libipt's: a trace of Intel PT, the packets alone, from a file.
 */
#pragma once

#include <intel-pt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static _Noreturn inline void give_up(const char *what, int error, uint64_t at)
{
    fprintf(stderr, "libipt: %s: %s at 0x%lx\n", what, pt_errstr(pt_errcode(error)), at);
    exit(1);
}

/* A configuration with it. */
static inline struct pt_config config_of(const char *path)
{
    struct pt_config config;
    FILE *file = fopen(path, "re");
    long size;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
        give_up(path, -pte_bad_file, 0);
    rewind(file);
    pt_config_init(&config);
    config.begin = malloc((size_t)size + 1);
    config.end = config.begin + size;
    if (config.begin == NULL || fread(config.begin, 1, (size_t)size, file) != (size_t)size)
        give_up(path, -pte_nomem, (uint64_t)size);
    fclose(file);
    return config;
}
