/* SPDX-License-Identifier: BSD-2-Clause
 * report.c: the lines that the experiment prints: counts, regions, what was left out, and errors.
 */
#include "accuracy.h"

#include "programs/measure/statistics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MEDIAN 50u
#define P95 95u

const char *experiment = "accuracy";

bool failed(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    printf("%s: error=\"", experiment);
    vprintf(format, arguments);
    printf("\"\n");
    va_end(arguments);
    return false;
}

/* The begin of each line. The item is a format and what it takes. */
#define PRINT_ITEM(item)                                                                           \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, item);                                                                 \
        printf("bench: experiment=%s item=", experiment);                                          \
        vprintf(item, arguments);                                                                  \
        va_end(arguments);                                                                         \
    } while (0)

void print_region(uint32_t region, uint64_t operations, const char *item, ...)
{
    PRINT_ITEM(item);
    printf(" region=%u ops=%llu\n", region, (unsigned long long)operations);
}

void print_skip(const char *why, const char *item, ...)
{
    PRINT_ITEM(item);
    printf(" skip=\"%s\"\n", why);
}

void print_value(const char *metric, uint64_t value, const char *item, ...)
{
    PRINT_ITEM(item);
    printf(" metric=%s unit=count value=%lld\n", metric, (long long)value);
}

static int compare_values(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

void print_values(const char *metric, uint64_t *values, unsigned count, const char *item, ...)
{
    PRINT_ITEM(item);
    if (count == 1) {
        printf(" metric=%s unit=count value=%lld\n", metric, (long long)values[0]);
        return;
    }
    qsort(values, count, sizeof(*values), compare_values);
    printf(" metric=%s unit=count n=%u min=%llu median=%llu p95=%llu\n", metric, count,
           (unsigned long long)values[0], (unsigned long long)nearest_rank(values, count, MEDIAN),
           (unsigned long long)nearest_rank(values, count, P95));
}
