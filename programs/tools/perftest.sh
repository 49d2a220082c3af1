#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# perftest.sh: the job `perftest`: perf's own tests, one after the other, each with a limit of time,
# and what became of each. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.perftest=1-99   the first and the last of perf's numbers
# Prints "perftest: number=N result=Ok|Skip|FAILED!|TIMEOUT name=\"NAME\"", subtests too.
PATH=/bin:/usr/bin:/usr/sbin:/sbin
export PATH
output=/tmp/perftest
seconds=1

range=$(tr ' ' '\n' < /proc/cmdline | sed -n 's/^pmv.perftest=//p' | tail -n 1)
number=${range%-*}
last=${range#*-}
number=${number:-1} last=${last:-99}
echo -1 > /proc/sys/kernel/perf_event_paranoid
while [ "$number" -le "$last" ]; do
    status=0
    timeout -s KILL $seconds perf test "$number" > $output 2>&1 < /dev/null || status=$?
    if [ ! -s $output ] && [ $status -ne 137 ]; then
        break
    fi
    tr -d '\r"' < $output | awk -v number="$number" -v status=$status '
        function say(name, result) {
            print "perftest: number=" number " result=" result " name=\"" name "\""
        }
        match($0, /^ *[0-9]+(\.[0-9]+)? *: /) {
            name = substr($0, RSTART + RLENGTH)
            sub(/ *: *(Ok|Skip|FAILED!).*$/, "", name)
            sub(/ *:$/, "", name)
            if (match($0, /: *(Ok|Skip|FAILED!)/))
                say(name, $0 ~ /FAILED!/ ? "FAILED" : $0 ~ /: *Skip/ ? "Skip" : "Ok")
            else if (status == 137)
                say(name, "TIMEOUT")
            said = 1
        }
        END { if (!said) say("?", status == 137 ? "TIMEOUT" : "none") }'
    number=$((number + 1))
done
