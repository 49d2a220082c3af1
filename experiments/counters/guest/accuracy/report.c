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

void print_region(const char *item, uint32_t region, uint64_t operations)
{
    printf("bench: experiment=%s item=%s region=%u ops=%llu\n", experiment, item, region,
           (unsigned long long)operations);
}

void print_skip(const char *item, const char *why)
{
    printf("bench: experiment=%s item=%s skip=\"%s\"\n", experiment, item, why);
}

void print_value(const char *item, const char *metric, uint64_t value)
{
    printf("bench: experiment=%s item=%s metric=%s unit=count value=%lld\n", experiment, item,
           metric, (long long)value);
}

static int compare_values(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

void print_values(const char *item, const char *metric, uint64_t *values, unsigned count)
{
    if (count == 1) {
        print_value(item, metric, values[0]);
        return;
    }
    qsort(values, count, sizeof(*values), compare_values);
    printf("bench: experiment=%s item=%s metric=%s unit=count n=%u min=%llu median=%llu "
           "p95=%llu\n",
           experiment, item, metric, count, (unsigned long long)values[0],
           (unsigned long long)nearest_rank(values, count, MEDIAN),
           (unsigned long long)nearest_rank(values, count, P95));
}
