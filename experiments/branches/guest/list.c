/* SPDX-License-Identifier: BSD-2-Clause
 * list.c: takes out what is not of the stretch, and looks for what is missing. Branches of the
 * kernel's way back from a PMI end with the IRET to where the PMI came; those of the system calls
 * START and STOP lie before and after the bounds. Two branches that follow each other have straight
 * code between them: the second one's address is not below the first one's target, and not far
 * above it.
 */
#include "list.h"

/* The way back from a PMI: what is left of it to be taken out. */
struct way_back {
    bool open;
    uint64_t ip;
};

/* Whether the record is the way back's; it may be the last of it. */
static bool of_way_back(struct way_back *way, const struct branchtrace_record *record)
{
    if (!way->open)
        return false;
    /* A way back to user mode may end without a record: the next one begins in user mode. */
    if (user_address(record->from)) {
        way->open = false;
        return false;
    }
    if (record->to == way->ip && (record->info & BRANCHTRACE_IRET) != 0)
        way->open = false;
    return true;
}

static bool straight(const struct branchtrace_record *one, const struct branchtrace_record *next)
{
    return next->from - one->to < STRAIGHT_MAX;
}

/* Drops what is not between the bounds. With kernel branches alone, those of START's way back end
 * where the first one comes from user mode. */
static void trim(struct list *list, uint32_t flags, const struct bounds *bounds)
{
    size_t first = 0, last = list->count;

    if ((flags & BRANCHTRACE_FAR) == 0)
        return;
    if ((flags & BRANCHTRACE_USER) == 0) {
        while (first < last && !user_address(list->records[first].from))
            first++;
    } else {
        for (size_t i = 0; i < last; i++) {
            if (list->records[i].to == bounds->begin) {
                first = i + 1;
                break;
            }
        }
    }
    for (size_t i = last; i > first; i--) {
        if (list->records[i - 1].from == bounds->end) {
            last = i - 1;
            break;
        }
    }
    list->outside = list->count - (last - first);
    list->records += first;
    list->count = last - first;
}

void list_clean(struct list *list, struct branchtrace_record *records,
                const struct branchtrace_readout *readouts, const struct branchtrace_result *result,
                uint32_t flags, const struct bounds *bounds)
{
    struct way_back way = {.open = false};
    /* A user-mode trace without far branches has none of the way back. */
    bool ways = (flags & (BRANCHTRACE_KERNEL | BRANCHTRACE_FAR)) != 0;
    uint64_t marks = 0;

    *list = (struct list){.records = records};
    for (size_t r = 0; r < result->readouts; r++) {
        const struct branchtrace_readout *readout = &readouts[r];

        list->missing += readout->missing;
        if (readout->missing != 0) {
            marks |= LIST_AFTER_GAP;
            way.open = false;
        }
        for (size_t i = 0; i < readout->count; i++) {
            struct branchtrace_record record = records[readout->first + i];

            if (of_way_back(&way, &record)) {
                list->own++;
                continue;
            }
            record.info |= marks;
            marks = 0;
            records[list->count++] = record;
        }
        marks |= LIST_AFTER_READOUT;
        if (readout->why == BRANCHTRACE_BY_PMI && ways)
            way = (struct way_back){true, readout->ip};
        if (readout->why == BRANCHTRACE_BY_SWITCH && (flags & BRANCHTRACE_KERNEL) != 0)
            marks |= LIST_AFTER_SWITCH;
    }
    list->lost = (int64_t)result->inserts - (int64_t)result->records;
    if ((flags & BRANCHTRACE_FAR) == 0)
        list->near_lost = (int64_t)result->near_taken - (int64_t)result->records;
    trim(list, flags, bounds);
    for (size_t i = 1; i < list->count; i++) {
        struct branchtrace_record *one = &list->records[i - 1], *next = one + 1;
        /* What comes from a mode whose branches are not traced follows nothing, nor does what
         * comes first where the kernel goes on with the thread. */
        uint32_t mode = user_address(next->from) ? BRANCHTRACE_USER : BRANCHTRACE_KERNEL;
        bool anew = (flags & mode) == 0 || (next->info & LIST_AFTER_SWITCH) != 0;

        if ((next->info & LIST_AFTER_GAP) == 0 && !anew && !straight(one, next)) {
            next->info |= LIST_AFTER_GAP;
            list->gaps++;
        }
    }
}

bool list_complete(const struct list *list)
{
    return list->missing == 0 && list->gaps == 0 && list->lost == 0 && list->near_lost == 0;
}
