#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sampling.sh: the job `sampling`: loads, each sampled in several ways by Debian's own perf; the
# load `closed` besides by an interrupt with a vector. Hands over each list of samples, with the
# mappings of the programs before it. Run by busybox sh in the guest.
#
# Words of the kernel's command line:
#   pmv.loads=listing2:nmi+pebs,...  loads, and of each the ways: nmi, pebs, lbr (with the branch
#                                    records), pt (Intel PT); of `closed` nmi and vector
#   pmv.periods=LOAD:211,...         instructions from sample to sample, of each load
#   pmv.iter=LOAD:5000,...           rounds, of a load that has them; of nginx requests
set -u
export job=sampling
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/sampling.data
log=/tmp/sampling.log
list=/tmp/sampling.list
stats=/tmp/sampling.stats
region=3400

of_load() { # of_load WORD LOAD: a number
    found=$(word "$1" '' | tr ',' '\n' | sed -n "s/^$2://p")
    case $found in
        '' | 0* | *[!0-9]*) give_up "$1 has no number for $2" ;;
        *) echo "$found" ;;
    esac
}

said() { # said LOST: of the list
    records=$(grep -vc -e PERF_RECORD -e '^function' -e '^dropped' $list)
    echo "sampling: load=$load way=$way region=$region records=$records lost=$1 errors=$2"
    /traced hand $list "$load-$way.list" || give_up "$load-$way.list: cannot hand it over"
    region=$((region + 1))
}

sample() { # sample FIELDS OPTIONS_OF_SCRIPT RECORD...
    fields=$1 script=$2
    shift 2
    # Room for all samples: perf does not run before the load has ended.
    run -N -B -m 4096 -o $data "$@" > $log 2>&1 || give_up "$load, $way: $(tail -n 1 $log)"
    # shellcheck disable=SC2086 # no word, or one
    perf script -i $data $script --show-mmap-events -F "$fields" > $list 2> $log ||
        give_up "$load, $way: $(tail -n 1 $log)"
    errors=$(grep -c 'trace error' $log)
    perf report -i $data --stats > $stats 2> $log || give_up "$load, $way: $(tail -n 1 $log)"
    said "$(awk '/LOST|THROTTLE/ { n += $3 } END { print n + 0 }' $stats)" "$errors"
}

# The load under perf record, with these words of perf's.
run() {
    case $load in
        listing2 | shorts) perf record "$@" "/$load" "$rounds" $region ;;
        sqlite3) perf record "$@" /marked $region /usr/bin/sqlite3 -batch :memory: < /in/sql ;;
        glpsol) perf record "$@" /marked $region /usr/bin/glpsol --mincost /in/flow ;;
        nginx) perf record "$@" -p "$(worker)" -- /marked $region /bin/sh /tmp/requests ;;
        closed) perf record "$@" /bin/sh -c "echo $region $rounds 0 > /proc/closed" ;;
        *) give_up "pmv.loads: found '$load'" ;;
    esac
}

# The PMI is an interrupt; no perf runs.
by_vector() {
    echo "$region $rounds $period" > /proc/closed || give_up "$load, $way: the sampler failed"
    cat /proc/closed > $list
    said "$(sed -n 's/^dropped //p' $list)" 0
}

server=
at_end() {
    [ -z "$server" ] || kill "$server"
}

worker() { # the fourth field is the parent
    awk -v parent="$server" '$4 == parent { print $1 }' /proc/[0-9]*/stat 2> /dev/null
}

start_nginx() {
    ip link set lo up || give_up "no loopback interface"
    ip addr show dev lo | grep -q 'inet 127\.' || ip addr add 127.0.0.1/8 dev lo
    mkdir -p /srv /run /var/log/nginx /var/lib/nginx
    head -c 80700 /dev/zero | tr '\0' 'x' > /srv/index.html
    nginx -c /workloads/nginx.conf -g 'daemon off;' > $log 2>&1 &
    server=$!
    for _ in $(seq 50); do
        ! wget -q -O /dev/null http://127.0.0.1/ 2> /dev/null || break
        sleep 0.1
    done
    [ -n "$(worker)" ] || give_up "nginx has no worker: $(tail -n 1 $log)"
    for _ in $(seq "$rounds"); do
        echo "wget -q -O /dev/null http://127.0.0.1/ || exit 1"
    done > /tmp/requests
}

hide_kernel_symbols
# In this order: without a limit of time the rate cannot be set any more.
echo 10000000 > /proc/sys/kernel/perf_event_max_sample_rate
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent

for each in $(word pmv.loads listing2:nmi | tr ',' ' '); do
    load=${each%%:*}
    period=$(of_load pmv.periods "$load") || exit 1
    rounds=0 mode=u
    case $load in
        listing2 | shorts | nginx | closed) rounds=$(of_load pmv.iter "$load") || exit 1 ;;
    esac
    case $load in
        nginx) start_nginx ;;
        closed)
            insmod /lib/modules/closed.ko || give_up "closed: the module cannot be loaded"
            mode=k
            ;;
    esac
    for way in $(echo "${each#*:}" | tr '+' ' '); do
        case $way in
            nmi) sample ip '' -e instructions:$mode -c "$period" ;;
            pebs) sample ip '' -e instructions:${mode}ppp -c "$period" ;;
            lbr) sample ip,brstack '' -b -e instructions:$mode -c "$period" ;;
            pt) sample ip "--itrace=i${period}i" -e intel_pt//$mode ;;
            vector) by_vector ;;
            *) give_up "pmv.loads: found the way '$way'" ;;
        esac
    done
done
at_end
