# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# common.sh: what the jobs of this folder share. Sourced by busybox sh as the guest's root; prints
# lines "bench: ..." (bench/README.md) of the experiment $job. Reads and writes /proc and /tmp.
: "${job:?}"

# The value of the last KEY=VALUE on the kernel's command line, or the fallback.
word() { # word KEY FALLBACK
    echo "$(cat /proc/cmdline) ${PMV_WORDS:-}" | tr ' ' '\n' | awk -v key="$1=" -v value="$2" '
        index($0, key) == 1 { value = substr($0, length(key) + 1) }
        END { print value }'
}

whole() { # whole KEY FALLBACK: the same, which must be a whole number from 1 on
    whole_value=$(word "$1" "$2")
    case $whole_value in
        '' | 0* | *[!0-9]*)
            echo "$job: error=\"$1=$whole_value, wanted a whole number from 1 on\"" >&2
            return 1
            ;;
    esac
    echo "$whole_value"
}

say() { # say ITEM REST...
    said=$1
    shift
    echo "bench: experiment=$job item=$said $*"
}

value() { # value ITEM METRIC UNIT VALUE
    say "$1" "metric=$2 unit=$3 value=$4"
}

# n, minimum, median and 95th percentile (nearest rank) of the numbers in a file, one a line.
distribution() { # distribution FILE
    sort -n "$1" | awk '
        { v[NR] = $1 }
        function rank(percent) { return v[int((NR * percent + 99) / 100)] }
        END { printf "n=%d min=%s median=%s p95=%s\n", NR, v[1], rank(50), rank(95) }'
}

values() { # values ITEM METRIC UNIT FILE: one number as it is, of several their distribution
    if [ "$(wc -l < "$4")" -eq 1 ]; then
        value "$1" "$2" "$3" "$(cat "$4")"
    else
        say "$1" "metric=$2 unit=$3 $(distribution "$4")"
    fi
}

total() { # total FILE
    awk '{ sum += $1 } END { printf "%.0f\n", sum }' "$1"
}

largest() { # largest FILE
    sort -n "$1" | tail -n 1
}

# How many events of a kind perf.data has, by the statistics of perf report --stats.
events() { # events STATS KIND
    awk -v kind="$2" '$1 == kind && $2 == "events:" { n = $3 } END { print n + 0 }' "$1"
}

# Only user mode is sampled here, so perf needs no symbols of the kernel. It would read all of them
# at each start, by several hundred million instructions: most of the time in an emulator.
hide_kernel_symbols() {
    [ -c /proc/kallsyms ] || mount -o bind /dev/null /proc/kallsyms
}

sample_rate() {
    cat /proc/sys/kernel/perf_event_max_sample_rate
}

# A job that leaves something running says here how to end it.
at_end() {
    :
}

give_up() {
    at_end
    echo "$job: error=\"$*\""
    exit 1
}
