#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# nginx.sh: the job `nginx`, the measurement `nginx` (thesis, section 4.3.1, Tables 4.6 and 4.7):
# wrk with one thread and 16 connections against nginx with one worker on the loopback interface,
# alone and with perf record sampling the worker. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.nginx_ms=30000       how long wrk runs: whole seconds, or below 1000 hundreds, because wrk
#                            looks ten times a second whether it is to end; rounded up
#   pmv.nginx_freq=4000      samples a second
#   pmv.nginx_bytes=80700    size of the page: with its header the thesis's bytes per request
# perf's own limits stay as they are; what they were at the end, and whether they were met, is said.
job=nginx
# shellcheck source=guest/workloads/common.sh
. /workloads/common.sh

region_plain=2330
region_profiled=2331
connections=16
warm_up_ms=100
wrk_step_ms=100
answer_seconds=20
data=/tmp/nginx.data
stats=/tmp/nginx.stats
log=/tmp/nginx.log

duration=$(whole pmv.nginx_ms 30000) || exit 1
frequency=$(whole pmv.nginx_freq 4000) || exit 1
bytes=$(whole pmv.nginx_bytes 80700) || exit 1

server=
at_end() {
    [ -z "$server" ] || kill "$server"
}

start_server() {
    ip link set lo up || give_up "no loopback interface"
    ip addr show dev lo | grep -q 'inet 127\.' || ip addr add 127.0.0.1/8 dev lo
    mkdir -p /srv /run /var/log/nginx /var/lib/nginx
    head -c "$bytes" /dev/zero | tr '\0' 'x' > /srv/index.html
    nginx -c /workloads/nginx.conf -g 'daemon off;' > $log 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! wget -q -O /dev/null http://127.0.0.1/ 2> /dev/null || return 0
        sleep 0.1
    done
    give_up "nginx does not answer: $(tail -n 1 $log)"
}

# Leaves wrk's figures in $log. Below a second wrk is ended early, half a step before it looks.
run_wrk() { # run_wrk REGION MILLISECONDS
    REGION=$1 wrk -t1 -c$connections -d$((($2 + 999) / 1000))s -s /workloads/wrk.lua \
        http://127.0.0.1:80/ > $log 2>&1 &
    wrk=$!
    if [ "$2" -lt 1000 ]; then
        steps=$((($2 + wrk_step_ms - 1) / wrk_step_ms))
        sleep "$(printf '0.%03d' $((steps * wrk_step_ms - wrk_step_ms / 2)))"
        kill -INT $wrk
    fi
    wait $wrk || give_up "wrk: $(tail -n 1 $log)"
    grep -q '^requests=' $log || give_up "wrk printed no figures: $(tail -n 1 $log)"
}

figure() { # figure NAME: one of wrk's figures
    tr ' ' '\n' < $log | sed -n "s/^$1=//p"
}

per_second() { # per_second NAME
    figure duration_us | awk -v amount="$(figure "$1")" '{ printf "%.2f\n", amount * 1000000 / $1 }'
}

report() { # report ITEM REGION
    [ "$(figure errors)" -eq 0 ] || give_up "wrk counted $(figure errors) errors"
    [ "$(figure requests)" -gt 0 ] || give_up "no request was answered"
    say "$1" "region=$2 ops=$(figure requests)"
    value "$1" requests count "$(figure requests)"
    value "$1" duration ns "$(figure duration_us)000"
    value "$1" latency_avg ns "$(figure latency_avg_us | awk '{ printf "%.0f\n", $1 * 1000 }')"
    value "$1" latency_max ns "$(figure latency_max_us)000"
    value "$1" rate count "$(per_second requests)"
    value "$1" transfer bytes "$(per_second bytes)"
}

plain() {
    run_wrk $region_plain "$duration"
    report plain $region_plain
}

profiled() {
    hide_kernel_symbols
    # The fourth field is the parent.
    worker=$(awk -v parent="$server" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2> /dev/null)
    [ -n "$worker" ] || give_up "nginx has no worker"
    rm -f /tmp/control /tmp/answer
    mkfifo /tmp/control /tmp/answer
    # Set up before wrk starts, and told to begin when it is.
    perf record -F "$frequency" -e cycles:u -p "$worker" -o $data -D -1 \
        --control fifo:/tmp/control,/tmp/answer > /tmp/perf.log 2>&1 &
    perf=$!
    tell_perf enable
    run_wrk $region_profiled "$duration"
    tell_perf stop
    wait $perf || give_up "perf record: $(tail -n 1 /tmp/perf.log)"
    report profiled $region_profiled
    perf report -i $data --stats > $stats 2>&1 || give_up "$(tail -n 1 $stats)"
    value profiled samples count "$(events $stats SAMPLE)"
    value profiled throttled count "$(events $stats THROTTLE)"
    value profiled lost count "$(events $stats LOST_SAMPLES)"
    value profiled max_sample_rate count "$(sample_rate)"
}

# perf answers each command. One that has ended would be waited for without an end.
tell_perf() { # tell_perf COMMAND
    # shellcheck disable=SC2016 # the inner shell's
    timeout $answer_seconds sh -c 'echo "$1" > /tmp/control && read -r _ < /tmp/answer' sh "$1" ||
        give_up "perf record: no answer to '$1': $(tail -n 1 /tmp/perf.log)"
}

start_server
run_wrk 0 $warm_up_ms
plain
profiled
at_end
