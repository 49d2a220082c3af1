/* SPDX-License-Identifier: BSD-2-Clause
 * output.c: what afl-showmap -r writes is AFL++'s afl-showmap.c, write_results_to_file(); the CSV
 * is ours.
 */
#include "output.h"

#include <string.h>

#define HASH_FACTOR 0x9e3779b97f4a7c15ull /* 2^64 divided by the golden ratio */
#define HASH_SHIFT 48
#define COUNT_MAX UINT8_MAX

static unsigned edge_index(uint64_t from, uint64_t to)
{
    return (unsigned)((from * HASH_FACTOR ^ to) * HASH_FACTOR >> HASH_SHIFT);
}

static void count_edges(const struct list *list, uint8_t map[MAP_SIZE])
{
    for (size_t i = 0; i < list->count; i++) {
        uint8_t *count = &map[edge_index(list->records[i].from, list->records[i].to)];

        if (*count < COUNT_MAX)
            (*count)++;
    }
}

void map_edges(const struct list *list, uint8_t map[MAP_SIZE])
{
    memset(map, 0, MAP_SIZE);
    count_edges(list, map);
}

/* The class's bit. */
static uint8_t count_class(uint8_t count)
{
    static const uint8_t last[] = {1, 2, 3, 7, 15, 31, 127};
    unsigned n = 0;

    while (n < sizeof(last) && count > last[n])
        n++;
    return (uint8_t)(1u << n);
}

/* Only the entries of this list are looked at: most of the map is 0. */
bool coverage_add(struct coverage *coverage, const struct list *list)
{
    bool new = false;

    count_edges(list, coverage->now);
    for (size_t i = 0; i < list->count; i++) {
        unsigned index = edge_index(list->records[i].from, list->records[i].to);

        if (coverage->now[index] != 0) {
            uint8_t bit = count_class(coverage->now[index]);

            new = new || (coverage->seen[index] & bit) == 0;
            coverage->seen[index] |= bit;
            coverage->now[index] = 0;
        }
    }
    return new;
}

bool map_write(FILE *out, const uint8_t map[MAP_SIZE])
{
    for (unsigned i = 0; i < MAP_SIZE; i++)
        if (map[i] != 0)
            fprintf(out, "%06u:%u\n", i, map[i]);
    return fflush(out) == 0 && !ferror(out);
}

bool csv_write(FILE *out, const struct list *list)
{
    fprintf(out, "seq,from,to,mispredicted,cycles,cpl\n");
    for (size_t i = 0; i < list->count; i++) {
        const struct branchtrace_record *record = &list->records[i];

        fprintf(out, "%zu,%#llx,%#llx,%d,", i, record->from, record->to,
                (record->info & BRANCHTRACE_MISPREDICTED) != 0);
        if ((record->info & (LIST_AFTER_READOUT | LIST_AFTER_GAP)) == 0)
            fprintf(out, "%llu", record->info & BRANCHTRACE_CYCLES);
        fprintf(out, ",%d\n", user_address(record->to) ? 3 : 0);
    }
    return fflush(out) == 0 && !ferror(out);
}
