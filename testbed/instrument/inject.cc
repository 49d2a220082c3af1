// SPDX-License-Identifier: BSD-2-Clause
//
// Scheduled NMIs. Position 1 is before the first instruction, so that position k lets k - 1
// instructions run.
#include "inject.h"

uint64_t NmiSchedule::position_of(uint64_t n) const
{
    if (!sweep)
        return position;
    return wrap == 0 ? n - first + 1 : (n - first) % wrap + 1;
}

void Injector::count(Plan &plan, uint64_t now)
{
    uint64_t n = ++plan.seen;

    if (n < plan.first || n > plan.last)
        return;
    missed_ += plan.armed;
    plan.armed = true;
    plan.at = now + plan.position_of(n) - 1;
}

void Injector::vm_exit(unsigned reason, uint64_t root)
{
    for (Plan &plan : plans_)
        if (plan.root && plan.reason == reason)
            count(plan, root);
}

void Injector::vm_entry()
{
    for (Plan &plan : plans_) {
        missed_ += plan.root && plan.armed;
        plan.armed = plan.armed && !plan.root;
    }
}

void Injector::nmi(uint64_t nonroot)
{
    for (Plan &plan : plans_)
        if (!plan.root)
            count(plan, nonroot);
}

uint64_t Injector::budget(bool root, uint64_t count) const
{
    uint64_t least = NEVER;

    for (const Plan &plan : plans_) {
        if (!plan.armed || plan.root != root)
            continue;
        uint64_t left = plan.at > count ? plan.at - count : 0;
        if (left < least)
            least = left;
    }
    return least;
}

DueNmis Injector::look(bool root, uint64_t count)
{
    DueNmis due;

    for (Plan &plan : plans_) {
        if (!plan.armed || plan.root != root || count < plan.at)
            continue;
        plan.armed = false;
        due.all++;
        due.host += plan.host;
        due.unblocked += plan.unblocked;
    }
    fired_ += due.all;
    return due;
}
