/* SPDX-License-Identifier: BSD-2-Clause
 * moves.c: the jobs that move counting threads between processors: by their affinity (what taskset
 * does), and by switching off the processor that they run on. The counters move with them, and the
 * count is that of a program of known length. SDM Vol. 3, "Performance Monitoring"; for a processor
 * that comes back, "Multiple-Processor (MP) Initialization".
 */
#include "smp.h"

#include "a1.h"
#include "payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOVE_RUNS 5
#define HOTPLUG_ROUNDS 5
#define HOTPLUG_PERIOD 1000

static bool is_exact(const struct counted *c) { return c->instructions == LOOP_INSTRUCTIONS; }

JOB(moves)
{
    int count = processors_online(), failed = 0;

    for (int run = 0; run < MOVE_RUNS; run++) {
        struct counted c;
        int error = counted_make(&c, 0);

        if (error == 0)
            error = counted_start(&c);
        if (error != 0) {
            printf("moves: error=\"%s\"\n", strerror(-error));
            return 1;
        }
        for (int cpu = 1; waitpid(c.process, NULL, WNOHANG) == 0; cpu = (cpu + 1) % count)
            pin(c.process, cpu);
        error = counted_finish(&c, true);
        printf("moves: run=%d instructions=%lld expected=%lld branches=%lld migrations=%lld\n", run,
               c.instructions, LOOP_INSTRUCTIONS, c.branches, c.migrations);
        failed |= error != 0 || !is_exact(&c);
    }
    return failed;
}

static int switch_processor(int cpu, bool on)
{
    char path[64];

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
    return write_text(path, on ? "1" : "0");
}

/* The program runs pinned to the processor when that goes away; then again after its return. The
 * job itself is on the processor `home` meanwhile. */
static int unplug(int cpu, int home, int round)
{
    struct counted during, after;
    struct a1_plan plan = {.period = HOTPLUG_PERIOD};
    struct a1_result pmis = {0};
    bool was_off;
    int error = counted_make(&during, cpu);

    if (error != 0 || (error = counted_start(&during)) != 0 ||
        (error = switch_processor(cpu, false)) != 0) {
        return error;
    }
    was_off = !processor_is_online(cpu);
    error = counted_finish(&during, false);
    if (error != 0 || (error = switch_processor(cpu, true)) != 0 ||
        (error = counted_make(&after, cpu)) != 0 || (error = counted_start(&after)) != 0 ||
        (error = counted_finish(&after, false)) != 0) {
        return error;
    }
    if ((error = pin(0, cpu)) != 0 || (error = a1_run(&plan, &pmis)) != 0 ||
        (error = pin(0, home)) != 0) {
        return error;
    }
    printf("hotplug: round=%d cpu=%d off=%d on=%d expected=%lld during=%lld migrations=%lld "
           "after=%lld branches=%lld pmis=%lld of=%lld\n",
           round, cpu, was_off, processor_is_online(cpu), LOOP_INSTRUCTIONS, during.instructions,
           during.migrations, after.instructions, after.branches, pmis.pmis, pmis.expected);
    return was_off && processor_is_online(cpu) && is_exact(&during) && is_exact(&after) &&
                   pmis.pmis == pmis.expected
               ? 0
               : 1;
}

/* Each processor from `first` to `last`, round after round, from `home`. */
static int unplug_all(int first, int last, int home)
{
    int count = processors_online(), failed = perf_lift_limits() != 0;

    pin(0, home);
    for (int round = 0; round < HOTPLUG_ROUNDS; round++) {
        for (int cpu = first; cpu <= last; cpu++) {
            int error = unplug(cpu, home, round);

            if (error < 0)
                printf("hotplug: round=%d cpu=%d error=\"%s\"\n", round, cpu, strerror(-error));
            failed |= error != 0;
        }
    }
    printf("hotplug: processors=%d before=%d\n", processors_online(), count);
    return failed || processors_online() != count;
}

JOB(hotplug) { return unplug_all(1, processors_online() - 1, 0); }

/* The first processor, where the kernel has the word cpu0_hotplug: it sleeps with interrupts
 * off, and comes back by an NMI, not by INIT and SIPI. */
JOB(hotplug0) { return unplug_all(0, 0, 1); }
