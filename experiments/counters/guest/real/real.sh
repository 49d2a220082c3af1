#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# real.sh: the job `real`: Debian's own programs on fixed inputs, in place of SPEC CPU2006 in
# perfctr-xen's sections 5.2 and 5.3: each one's counts by perf stat, and its samples by function by
# perf record, one every so many events, user mode alone. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.real=gzip,bzip2,xz,sqlite3,python3,cc1,glpsol   which of them; without: all of the image's
#   pmv.real_scale=20      the inputs, in multiples of what takes some million instructions
#   pmv.real_periods=40000:1000:500   of glpsol's cycles, LLC misses, branches: the paper's
#   pmv.real_period=5000   of the others' branches: of all events the one that no exit changes
# perf's limit of the processor's time for sampling is lifted: it would leave samples out.
job=real
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

here=/real
inputs=/tmp/real.in
output=/tmp/real.out
data=/tmp/real.data
report=/tmp/real.report
log=/tmp/real.log
counted=cycles,instructions,branches,cache-references,cache-misses
least_share=1 # in percent: the paper's, of a function that has a row
region=2700   # and one more for each program
watchdog=/proc/sys/kernel/nmi_watchdog
time_limit=/proc/sys/kernel/perf_cpu_time_max_percent
rate_limit=/proc/sys/kernel/perf_event_max_sample_rate

scale=$(whole pmv.real_scale 20) || exit 1
period=$(whole pmv.real_period 5000) || exit 1
periods=$(word pmv.real_periods 40000:1000:500)
programs=$(word pmv.real "$(cat $here/programs)" | tr ',' ' ')
case $periods in
    *[!0-9:]* | *:*:*:* | :* | *: | *::*) periods= ;;
    *:*:*) ;;
    *) periods= ;;
esac
[ -n "$periods" ] ||
    give_up "pmv.real_periods=$(word pmv.real_periods ''), wanted CYCLES:MISSES:BRANCHES"

# The command of a program, in $@ of the caller: the same words, environment and addresses in every
# column, because a program's path depends on all of them.
run() { # run PROGRAM PERF...: perf's words stand before the command
    program=$1
    shift
    stdin=/dev/null
    case $program in
        gzip) set -- "$@" /bin/gzip -c $inputs/text ;;
        bzip2) set -- "$@" /bin/bzip2 -1 -c $inputs/text ;;
        xz) set -- "$@" /usr/bin/xz -1 -T1 -c $inputs/text ;;
        sqlite3)
            stdin=$inputs/sql
            set -- "$@" /usr/bin/sqlite3 -batch :memory:
            ;;
        python3) set -- "$@" /usr/bin/python3 -S -B $here/stones.py $((scale * 500)) ;;
        cc1) set -- "$@" /usr/bin/cc1 -fpreprocessed -quiet -O2 $inputs/source.i -o $output.s ;;
        glpsol) set -- "$@" /usr/bin/glpsol --mincost $inputs/flow ;;
        *) give_up "pmv.real: found '$program', wanted of: $(cat $here/programs)" ;;
    esac
    env -i HOME=/ LC_ALL=C PYTHONHASHSEED=0 PATH=/bin:/usr/bin "$@" \
        < $stdin > $output 2> $log || give_up "$program: $(tail -n 1 $log)"
}

# By itself: what it executes and which exits it takes, by the ledger, and what it puts out.
mark() { # mark PROGRAM
    rm -f $output.s
    run "$1" $here/marked "$region"
    say "$1" "region=$region ops=1"
    region=$((region + 1))
    written=$(cat $output $output.s 2> /dev/null | wc -c)
    [ "$written" -gt 0 ] || give_up "$1 has no output"
    value "$1" output bytes "$written"
}

count() { # count PROGRAM
    # One group, so that all are counted all the time or none is.
    run "$1" /usr/bin/perf stat -x ';' -o $report -e "{$counted}:u"
    awk -F ';' -v program="$1" '
        BEGIN {
            name["cycles"] = "cycles"; name["instructions"] = "instructions"
            name["branches"] = "branches"; name["cache-references"] = "llc_references"
            name["cache-misses"] = "llc_misses"
        }
        { sub(/:.*/, "", $3) }
        $3 in name && $1 ~ /^[0-9]+$/ && $5 ~ /^100/ {
            printf "bench: experiment=real item=%s.%s metric=count unit=count value=%s\n",
                program, name[$3], $1
            found++
        }
        END { exit found != 5 }' $report || give_up "perf stat: $(tail -n 1 $report)"
}

sample() { # sample PROGRAM EVENT NAME PERIOD
    hide_kernel_symbols
    # No copies of the programs in a cache, which would be most of perf's own work.
    run "$1" /usr/bin/perf record -q -N -e "$2:u" -c "$4" -o $data
    perf report -i $data --stdio --no-demangle --percent-limit 0 -F sample,dso,symbol \
        -t ';' > $report 2> $log || give_up "perf report: $(tail -n 1 $log)"
    lost=$(sed -n 's/^# Total Lost Samples: *\([0-9]*\) *$/\1/p' $report)
    [ -n "$lost" ] || give_up "perf report says nothing of lost samples"
    value "$1.$3" period count "$4"
    value "$1.$3" lost count "$lost"
    awk -F ';' -v item="$1.$3" -v least=$least_share '
        NF >= 3 && !/^#/ {
            gsub(/^ +| +$/, "", $2)
            sub(/^ *\[.\] /, "", $3); gsub(/[ "=]/, "", $3)
            n[$3 "@" $2] += $1; all += $1
        }
        END {
            if (all == 0)
                exit 1
            print "bench: experiment=real item=" item " metric=samples unit=count value=" all
            for (f in n) {
                if (n[f] * 100 < least * all)
                    continue
                print "bench: experiment=real item=" item "." f \
                    " metric=samples unit=count value=" n[f]
                printf "bench: experiment=real item=%s.%s metric=share unit=percent value=%.6g\n",
                    item, f, n[f] * 100 / all
            }
        }' $report || give_up "perf has no sample of $1 ($3 every $4)"
}

at_end() {
    [ -z "$watchdog_was" ] || echo "$watchdog_was" > $watchdog
}

watchdog_was=$(cat $watchdog 2> /dev/null)
[ -z "$watchdog_was" ] || echo 0 > $watchdog
# In this order: without a limit of the time the kernel takes no other rate.
echo 1000000 > $rate_limit
echo 0 > $time_limit
echo 0 > /proc/sys/kernel/randomize_va_space
mkdir -p $inputs
cp $here/in/* $inputs/
if [ "$scale" -ne 1 ] && [ -x /usr/bin/python3 ]; then
    env -i /usr/bin/python3 -S -B $here/inputs.py "$scale" $inputs || give_up "no inputs"
elif [ "$scale" -ne 1 ]; then
    echo "real: note=\"inputs of scale 1: this image has no Python to make larger ones\""
fi
for each in $programs; do
    mark "$each"
    count "$each"
    if [ "$each" = glpsol ]; then
        sample glpsol cycles cycles "${periods%%:*}"
        rest=${periods#*:}
        sample glpsol cache-misses llc_misses "${rest%:*}"
        sample glpsol branches branches "${rest#*:}"
    else
        sample "$each" branches branches "$period"
    fi
done
at_end
