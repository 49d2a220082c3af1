#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# perf.sh: the cases of Debian's perf in tools.ini: perf as its user calls it, on loads of fixed
# work, sampled every so many branches of user mode, so that a sample is at the same place wherever
# it is taken.
# Usage: perf.sh CASE. Run by busybox sh as the guest's root; prints what perf printed.
set -eu
case=$1
data=/tmp/perf.$case
log=/tmp/perf.$case.log
work=20000
period=1009

# perf is asked for its say only where it fails: how often it woke up is no result.
quietly() {
    "$@" > "$log" 2>&1 || {
        cat "$log"
        exit 1
    }
}

# Its tables without headers, which name the machine, the time and the command.
table() { # table REPORT-OPTION...
    perf report -i "$data" --stdio --stdio-color never "$@" 2> "$log" | grep -v '^#\|^$' || true
}

# perf reads all of the kernel's symbols at each start, by several hundred million instructions.
without_kernel_symbols() {
    [ -c /proc/kallsyms ] || mount -o bind /dev/null /proc/kallsyms
}

tracing() {
    [ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
}

# What perf record samples of the load.
record() { # record OPTION... -- COMMAND...
    quietly perf record -N -o "$data" "$@"
}

without_kernel_symbols
# No sample is left out. In this order: without a limit of time the rate cannot be set any more.
if [ "$(cat /proc/sys/kernel/perf_cpu_time_max_percent)" -ne 0 ]; then
    echo 1000000 > /proc/sys/kernel/perf_event_max_sample_rate
    echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
fi
case $case in
    stat)
        perf stat -e instructions:u,branches:u,cycles:u,ref-cycles:u /loop 2>&1
        ;;
    stat-repeat)
        { perf stat -r 3 -x ';' -e branches:u,branch-misses:u,L1-dcache-loads:u,L1-dcache-stores:u \
            /listing2 $work 0 > /dev/null; } 2>&1
        ;;
    stat-detailed)
        { perf stat --all-user -d -d -d /listing2 $work 0 > /dev/null; } 2>&1
        ;;
    stat-metric)
        { perf stat --all-user -M IpCall,IpBranch -x ';' /listing2 $work 0 > /dev/null; } 2>&1
        ;;
    record)
        record -e branches:u -c $period /listing2 $work 0
        table --sort symbol -n
        ;;
    record-graph)
        record -g -e branches:u -c $period /listing2 $work 0
        table --sort symbol -n -g caller,0.5 --children
        ;;
    record-branches)
        record -b -e branches:u -c $period /listing2 $work 0
        # perf report of these ends with a segmentation fault, here and elsewhere. What was
        # predicted is left out: the predictor has seen the kernel's branches, too.
        perf script -i "$data" -F brstack 2> "$log" | tr ' ' '\n' | cut -d / -f 1-2 | grep / |
            sort | uniq -c |
            sort -k 1,1nr -k 2 | head -n 30
        ;;
    record-two)
        head -c 50000 /bin/busybox > /tmp/part
        record -e branches:u,L1-dcache-loads:u -c 1009 gzip -k -f /tmp/part
        table --sort dso -n
        ;;
    script)
        record -e branches:u -c $period /listing2 $work 0
        perf script -i "$data" -F ip,sym 2> "$log" | sort | uniq -c
        ;;
    annotate | annotate-intel)
        record -e branches:u -c $period /listing2 $work 0
        options='c'
        [ "$case" = annotate ] || options='-M intel bb'
        # shellcheck disable=SC2086 # words
        perf annotate -i "$data" --stdio $options 2> "$log" | grep -v '^$' || cat "$log"
        ;;
    diff)
        record -e branches:u -c $period /listing2 $work 0
        mv "$data" "$data.old"
        record -e branches:u -c $period /listing2 $((2 * work)) 0
        perf diff --sort symbol "$data.old" "$data" 2> "$log" | grep -v '^#\|^$'
        ;;
    top | top-system)
        options="-e branches:u -c 100003 -p"
        [ "$case" = top ] || options='-e cycles:u -c 100003 -C 0'
        /listing2 2000000000 0 > /dev/null &
        load=$!
        [ "$case" = top-system ] || options="$options $load"
        # Its keyboard is a pipe that stays open, as long as it may run.
        # shellcheck disable=SC2086 # words
        sleep 4 | timeout -s INT 3 perf top --stdio -d 1 $options 2>&1 |
            tr -d '\033' | sed 's/\[[0-9;?]*[A-Zm]//g' > "$log"
        kill $load
        grep -o 'listing2 .*\[\.\] [a-z]*' "$log" | sort -u | grep . || head -n 20 "$log"
        ;;
    mem | mem-stores)
        type=load
        [ "$case" = mem ] || type=store
        quietly perf mem -t $type record -U -o "$data" -c 101 /access
        quietly perf mem -t $type report -i "$data" --stdio --sort mem,sym
        # The kernel's own are there too, whatever is asked for.
        grep '\[\.\]' "$log"
        ;;
    c2c-shared | c2c-apart)
        quietly perf c2c record -u -o "$data" -c 101 /tool/sharing "${case#c2c-}"
        perf c2c report -i "$data" --stats 2> "$log"
        perf c2c report -i "$data" --stdio 2> "$log" | sed -n '/Shared Data Cache Line Table/,$p'
        ;;
    lock-contention)
        tracing
        quietly perf lock record -o "$data" /tool/sharing maps
        perf lock contention -i "$data" 2>&1
        ;;
    lock-report)
        tracing
        quietly perf lock record -o "$data" perf bench sched messaging -t -g 1 -l 20
        perf lock report -i "$data" 2>&1
        ;;
    sched-latency)
        tracing
        quietly perf sched record -o "$data" perf bench sched pipe -l 100
        perf sched latency -i "$data" 2>&1
        ;;
    sched-timehist)
        tracing
        quietly perf sched record -o "$data" perf bench sched pipe -l 20
        perf sched timehist -i "$data" --summary 2>&1
        ;;
    trace)
        tracing
        perf trace -o "$log" head -c 100 /dev/zero > /dev/null
        cat "$log"
        ;;
    trace-summary)
        tracing
        perf trace -s -o "$log" perf bench sched pipe -l 50 > /dev/null
        cat "$log"
        ;;
    trace-faults)
        tracing
        perf trace -F all --no-syscalls -o "$log" head -c 100 /dev/zero > /dev/null
        cat "$log"
        ;;
    list)
        perf list hw cache pmu 2> "$log"
        ;;
    test)
        umount /proc/kallsyms
        tracing
        # Not these: they take thousands of millions of instructions, for all of the kernel's
        # symbols or events.
        perf test -s 10,26,31,74 2>&1
        ;;
    test-events)
        tracing
        perf test 4 20 21 22 23 25 28 35 50 51 73 77 2>&1
        ;;
    bench-*)
        bench=${case#bench-}
        bench=$(echo "$bench" | tr - ' ')
        case $bench in
            'sched messaging') options='-g 2 -l 20' ;;
            'sched pipe') options='-l 1000' ;;
            'mem memcpy' | 'mem memset') options='-s 1MB -l 10' ;;
            'futex hash') options='-t 2 -r 1 -f 64' ;;
            'futex wake' | 'futex requeue') options='-t 4' ;;
            'epoll wait') options='-t 2 -r 1' ;;
            'syscall basic') options='-l 10000' ;;
            *) options= ;;
        esac
        # shellcheck disable=SC2086 # words
        perf bench $bench $options 2>&1
        ;;
    *)
        echo "perf.sh: unknown case '$case'"
        exit 2
        ;;
esac
