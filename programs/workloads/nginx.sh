#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# nginx.sh: the job `nginx`, the measurement `nginx` (thesis, section 4.3.1, Tables 4.6 and 4.7):
# wrk with one thread and 16 connections against nginx with one worker on the loopback interface,
# alone and with perf record sampling the worker. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.nginx_ms=2000        how long wrk runs: whole seconds, or below 1000 hundreds, because wrk
#                            looks ten times a second whether it is to end; rounded up
#   pmv.nginx_runs=30        how often, alone and sampled by turns; 10 where a run is no second,
#                            each with a region of its own. The thesis has one run of 30 seconds
#   pmv.nginx_delay_us=1     what is waited before the first run
#   pmv.nginx_freq=4000      samples a second
#   pmv.nginx_bytes=80700    size of the page: with its header the thesis's bytes per request
# perf's own limits stay as they are; what they were at the end, and whether they were met, is said.
job=nginx
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

region_plain=2330 # in run 1; two more in each further one
region_profiled=2331
connections=16
warm_up_requests=16
tries=10
wrk_step_ms=100
answer_seconds=20
data=/tmp/nginx.data
stats=/tmp/nginx.stats
log=/tmp/nginx.log

duration=$(whole pmv.nginx_ms 2000) || exit 1
usual_runs=30
[ "$duration" -ge 1000 ] || usual_runs=10
runs=$(whole pmv.nginx_runs $usual_runs) || exit 1
delay=$(whole pmv.nginx_delay_us 1) || exit 1
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
    for _ in $(seq $tries); do
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

# Keeps the figures of one run, each in a file with one line for each run.
keep() { # keep ITEM
    [ "$(figure errors)" -eq 0 ] || give_up "wrk counted $(figure errors) errors"
    [ "$(figure requests)" -gt 0 ] || give_up "no request was answered"
    figure requests >> "/tmp/$1.requests"
    echo "$(figure duration_us)000" >> "/tmp/$1.duration"
    figure latency_avg_us | awk '{ printf "%.0f\n", $1 * 1000 }' >> "/tmp/$1.latency_avg"
    echo "$(figure latency_max_us)000" >> "/tmp/$1.latency_max"
    per_second requests >> "/tmp/$1.rate"
    per_second bytes >> "/tmp/$1.transfer"
}

report() { # report ITEM REGION: what all runs did, and each run's region
    value "$1" requests count "$(total "/tmp/$1.requests")"
    value "$1" duration ns "$(total "/tmp/$1.duration")"
    values "$1" latency_avg ns "/tmp/$1.latency_avg"
    value "$1" latency_max ns "$(largest "/tmp/$1.latency_max")"
    values "$1" rate count "/tmp/$1.rate"
    values "$1" transfer bytes "/tmp/$1.transfer"
    number=0
    while read -r requests; do
        say "$1$([ $number -eq 0 ] || echo ".$((number + 1))")" \
            "region=$(($2 + 2 * number)) ops=$requests"
        number=$((number + 1))
    done < "/tmp/$1.requests"
    [ "$number" -eq "$runs" ] || give_up "$1 has $number runs, wanted $runs"
}

region_of() { # region_of FIRST: of this run
    echo $(($1 + 2 * (run - 1)))
}

plain() {
    run_wrk "$(region_of $region_plain)" "$duration"
    keep plain
}

profiled() {
    hide_kernel_symbols
    rm -f /tmp/control /tmp/answer
    mkfifo /tmp/control /tmp/answer
    # Set up before wrk starts, and told to begin when it is.
    perf record -F "$frequency" -e cycles:u -p "$worker" -o $data -D -1 \
        --control fifo:/tmp/control,/tmp/answer > /tmp/perf.log 2>&1 &
    perf=$!
    tell_perf enable
    run_wrk "$(region_of $region_profiled)" "$duration"
    tell_perf stop
    wait $perf || give_up "perf record: $(tail -n 1 /tmp/perf.log)"
    keep profiled
    perf report -i $data --stats > $stats 2>&1 || give_up "$(tail -n 1 $stats)"
    events $stats SAMPLE >> /tmp/profiled.samples
    events $stats THROTTLE >> /tmp/profiled.throttled
    events $stats LOST_SAMPLES >> /tmp/profiled.lost
}

# perf answers each command. One that has ended would be waited for without an end.
tell_perf() { # tell_perf COMMAND
    # shellcheck disable=SC2016 # the inner shell's
    timeout $answer_seconds sh -c 'echo "$1" > /tmp/control && read -r _ < /tmp/answer' sh "$1" ||
        give_up "perf record: no answer to '$1': $(tail -n 1 /tmp/perf.log)"
}

rm -f /tmp/plain.* /tmp/profiled.*
start_server
# The fourth field is the parent.
worker=$(awk -v parent="$server" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2> /dev/null)
[ -n "$worker" ] || give_up "nginx has no worker"
for _ in $(seq $warm_up_requests); do
    wget -q -O /dev/null http://127.0.0.1/ || give_up "nginx does not answer any more"
done
usleep "$delay" || give_up "usleep $delay failed"
run=0
# By turns, so that what changes slowly, such as the processor's frequency, changes for both.
while [ "$run" -lt "$runs" ]; do
    run=$((run + 1))
    plain
    profiled
done
report plain $region_plain
report profiled $region_profiled
for metric in samples throttled lost; do
    value profiled $metric count "$(total /tmp/profiled.$metric)"
done
value profiled max_sample_rate count "$(sample_rate)"
at_end
