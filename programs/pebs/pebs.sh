#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
echo 0 > /proc/sys/kernel/kptr_restrict
echo 100000 > /proc/sys/kernel/perf_event_max_sample_rate
dmesg | grep -i -E "pebs|perf|BTS" | sed 's/^/pebs: log=/'
[ -c /proc/kallsyms ] || mount -o bind /dev/null /proc/kallsyms
pmis() { awk '/^ *PMI:/ { print $2 }' /proc/interrupts; }
try() { # try NAME RECORD...
    name=$1; shift
    before=$(pmis)
    perf record -N -o /tmp/d "$@" > /tmp/log 2>&1 || { echo "pebs: FAILED $name"; cat /tmp/log; return; }
    after=$(pmis)
    perf script -i /tmp/d -F event,ip > /tmp/ips 2>/tmp/err
    echo "pebs: case=$name records=$(wc -l < /tmp/ips) pmis=$((after - before)) digest=$(md5sum < /tmp/ips | cut -c 1-12)"
    sort /tmp/ips | uniq -c | sort -rn | head -8 | sed 's/^/pebs:   /'
    tail -1 /tmp/log
}
try loop3 -e instructions:uppp,branches:upp,cycles:upp -c 10007 /loop
try brinstr -e instructions:uppp,branches:upp -c 1009 /br_instr 20000
try large -e instructions:upp -c 1009 /br_instr 40000
try lbr -b -e instructions:upp -c 1009 /br_instr 4000
perf script -i /tmp/d -F ip,brstack | head -2 | cut -c 1-300
try callgraph --call-graph lbr -e instructions:upp -c 1009 /br_instr 4000
perf script -i /tmp/d -F ip,sym | head -6
try loads -d --weight -e cpu/mem-loads,ldlat=30/upp -c 7 /access
perf script -i /tmp/d -F ip,addr,weight,data_src | head -5
try stores -d -e cpu/mem-stores/upp -c 101 /access
perf script -i /tmp/d -F ip,addr,weight,data_src | head -5
perf mem record -t load -o /tmp/d /access 2>&1 | tail -3
perf mem report -i /tmp/d --stdio 2>&1 | head -30
try bts -e branches:u -c 1 /br_instr 500
perf script -i /tmp/d -F ip,addr | head -3
