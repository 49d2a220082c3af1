#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# others.sh: cases of tools.ini of tools beside perf, and of servers and a JIT compiler under perf
# record.
# Usage: others.sh CASE. Run by busybox sh as the guest's root; prints what the tool printed.
set -eu
here=/tool
case=$1
data=/tmp/others.data
log=/tmp/others.log

quietly() {
    "$@" > $log 2>&1 || {
        cat $log
        exit 1
    }
}

table() { # table REPORT-OPTION...
    perf report -i $data --stdio --stdio-color never "$@" 2> $log | grep -v '^#\|^$' || true
}

without_kernel_symbols() {
    [ -c /proc/kallsyms ] || mount -o bind /dev/null /proc/kallsyms
}

loopback() {
    ip link set lo up
    ip addr show dev lo | grep -q 'inet 127\.' || ip addr add 127.0.0.1/8 dev lo
}

# Waits until a command succeeds; what a server has said is the reason where it does not.
until_it_does() {
    for _ in $(seq 100); do
        ! "$@" > /tmp/others.tried 2>&1 || return 0
        sleep 0.1
    done
    echo "others.sh: not in time: $*: $(cat /tmp/others.tried)"
    cat $log
    exit 1
}

gdb_script() { # gdb_script FILE PROGRAM ARGUMENTS...
    script=$1
    shift
    gdb -nx -batch -x "$here/$script" --args "$@" 2>&1
}

trace() { # trace PROGRAM: of bpftrace, which attaches before it starts the load
    mount | grep -q ' /sys/kernel/debug ' || mount -t debugfs debugfs /sys/kernel/debug
    BPFTRACE_STRLEN=64 bpftrace -e "$1" -c "$2" 2>&1 | grep -v '^$'
}

start_nginx() {
    loopback
    mkdir -p /srv /run /var/log/nginx /var/lib/nginx
    head -c 80700 /dev/zero | tr '\0' x > /srv/index.html
    nginx -c /workloads/nginx.conf -g 'daemon off;' > $log 2>&1 &
    server=$!
    until_it_does wget -q -O /dev/null http://127.0.0.1/
    worker=$(awk -v parent=$server '$4 == parent { print $1 }' /proc/[0-9]*/stat 2> /dev/null)
}

postgres=/usr/lib/postgresql/15/bin
as_postgres() {
    su -s /bin/sh www-data -c "$*"
}

sampled() { # sampled COMMAND...
    quietly perf record -N -e branches:u -c 100003 -o $data "$@"
}

without_kernel_symbols
# No sample is left out. In this order: without a limit of time the rate cannot be set any more.
if [ "$(cat /proc/sys/kernel/perf_cpu_time_max_percent)" -ne 0 ]; then
    echo 1000000 > /proc/sys/kernel/perf_event_max_sample_rate
    echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
fi
case $case in
    stress-*)
        what=${case#stress-}
        case $what in
            cpu) options='--cpu 1 --cpu-method int64 --cpu-ops 20' ;;
            branch) options='--branch 1 --branch-ops 200' ;;
            syscall) options='--get 1 --get-ops 20' ;;
            switch) options='--switch 1 --switch-ops 2000' ;;
            fork) options='--fork 1 --fork-ops 50' ;;
            sigrt) options='--sigrt 1 --sigrt-ops 500' ;;
        esac
        # shellcheck disable=SC2086 # words
        stress-ng --no-rand-seed --perf $options 2>&1
        ;;
    bpf-hardware)
        trace 'hardware:branch-instructions:100000 { @[comm] = count(); }' '/listing2 200000 0'
        ;;
    bpf-software)
        trace 'software:page-faults:1 { @[comm] = count(); }' '/listing2 2000 0'
        ;;
    bpf-profile)
        trace 'profile:hz:999 { @[comm] = count(); }' '/listing2 2000000 0'
        ;;
    gdb-*)
        gdb_script "${case#gdb-}.gdb" /listing2 3 0
        ;;
    nginx-pages)
        start_nginx
        quietly perf record -N -e branches:u -c 1009 -o $data -p "$worker" -- sh -c \
            'for n in 1 2 3 4 5 6 7 8; do wget -q -O /dev/null http://127.0.0.1/; done'
        kill $server
        table --sort comm,dso -n
        ;;
    nginx-load)
        start_nginx
        perf record -N -F 4000 -e cycles:u -o $data -p "$worker" -- \
            wrk -t1 -c16 -d1s -s /workloads/wrk.lua \
            http://127.0.0.1:80/ > $log 2>&1
        kill $server
        grep '^requests=' $log
        table --sort comm,dso
        ;;
    postgres-single)
        sampled su -s /bin/sh www-data -c \
            "$postgres/postgres --single -D /postgres template1 < $here/single.sql"
        table --sort comm,dso -n
        ;;
    postgres-server)
        loopback
        log=/tmp/postgres.log
        as_postgres "$postgres/postgres -D /postgres -c listen_addresses=127.0.0.1" \
            -c unix_socket_directories=/tmp > $log 2>&1 &
        until_it_does as_postgres "psql -h 127.0.0.1 -c 'select 1' template1"
        log=/tmp/others.log
        sampled -a -- su -s /bin/sh www-data -c "psql -h 127.0.0.1 -f $here/server.sql template1"
        grep -v '^\[ perf record\|^Couldn.t record\|^Symbol resolution\|^Check /proc\|^$' $log
        as_postgres "kill -INT \$(head -n 1 /postgres/postmaster.pid)"
        table --sort dso --comms postgres -n
        ;;
    jit-*)
        options='-n -d zend_extension=opcache -d opcache.enable_cli=1'
        options+=' -d opcache.jit_buffer_size=16M'
        # 16: /tmp/perf-PID.map
        # shellcheck disable=SC2086 # words
        sampled php8.2 $options -d opcache.jit="${case#jit-}" -d opcache.jit_debug=16 $here/jit.php
        grep -v '^\[' $log
        table --sort dso,symbol -n
        ;;
    *)
        echo "others.sh: unknown case '$case'"
        exit 2
        ;;
esac
