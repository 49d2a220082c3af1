#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# papi.sh: the job `papi`: runs PAPI's utilities and tests (/papi/tests, which is papi.ini) as they
# are, and says how each ended, by PAPI's own words. Run by busybox sh as the guest's root.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.papi=quick     which: quick, full (quick ones, too), long, or names with commas
#   pmv.papi_seconds=  the guest's seconds that each may take, in place of the table's
#   pmv.papi_said=0    that many of the last lines that each test printed, too
# Prints "papi: test=NAME result=RESULT status=STATUS", and for what did not pass why.
PATH=/bin:/usr/bin
export PATH TESTS_COLOR=n
output=/tmp/papi.out

word() { # word KEY FALLBACK
    echo "$(cat /proc/cmdline) ${PMV_WORDS:-}" | tr ' ' '\n' | awk -v key="$1=" -v value="$2" '
        index($0, key) == 1 { value = substr($0, length(key) + 1) }
        END { print value }'
}

# PAPI's word for how a test ended is the last of these that it printed; its utilities have none.
result() { # result STATUS
    case $1 in
        137) echo TIMEOUT ;;
        1[3-9]?) echo CRASHED ;;
        *)
            awk -v status="$1" '
                /FAILED/ { is = "FAILED" }
                /SKIPPED/ { is = "SKIPPED" }
                /PASSED/ { is = /WARNING/ ? "WARNED" : "PASSED" }
                END { print is == "" ? (status == 0 ? "ENDED" : "FAILED") : is }' "$output"
            ;;
    esac
}

# Why: the line after PAPI's word, or the last one.
reason() {
    awk '/FAILED|SKIPPED/ { getline; said = $0; found = 1 }
         NF > 0 { last = $0 }
         END { print found && said != "" ? said : last }' "$output" | tr -d '"' | cut -c 1-160
}

# Of a test that was ended, what it has started goes on.
end_the_rest() {
    for place in /proc/[0-9]*; do
        case $(readlink "$place/exe") in
            /papi/*) kill -s KILL "${place#/proc/}" ;;
        esac
    done
}

wanted() { # wanted NAME WHEN
    case $which in
        full) [ "$2" = quick ] || [ "$2" = full ] ;;
        quick | long) [ "$2" = "$which" ] ;;
        *) echo ",$which," | grep -q ",$1," ;;
    esac
}

which=$(word pmv.papi quick)
said=$(word pmv.papi_said 0)
limit=$(word pmv.papi_seconds '')
count=0
# Debian's own 3 is a value that PAPI takes for "no events", root or not.
echo -1 > /proc/sys/kernel/perf_event_paranoid
cd /papi || exit 1
while read -r name source _ arguments seconds when _; do
    case $name in
        '' | '#'*) continue ;;
    esac
    wanted "$name" "$when" || continue
    count=$((count + 1))
    [ "$arguments" != - ] || arguments=
    program=/papi/$name
    [ "$source" != bin ] || program=/usr/bin/$name
    before=$(awk '{ print $1 }' /proc/uptime)
    status=0
    # shellcheck disable=SC2046 # words
    timeout -s KILL "${limit:-$seconds}" \
        "$program" $(echo "$arguments" | tr ',' ' ') > "$output" 2>&1 \
        < /dev/null || status=$?
    [ $status -ne 137 ] || end_the_rest
    is=$(result $status)
    took=$(awk -v before="$before" '{ print $1 - before }' /proc/uptime)
    case $is in
        PASSED | ENDED) echo "papi: test=$name result=$is status=$status seconds=$took" ;;
        *) echo "papi: test=$name result=$is status=$status seconds=$took said=\"$(reason)\"" ;;
    esac
    [ "$said" = 0 ] || tail -n "$said" "$output" | sed "s/^/papi-said: $name: /"
done < /papi/tests
if [ $count -eq 0 ]; then
    echo "papi: error=\"pmv.papi=$which, wanted quick, full, long, or names of" \
        "experiments/counters/guest/tools/papi.ini\""
    exit 1
fi
echo "papi: tests=$count"
