#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pebs.sh: the job `pebs`: Debian's own perf samples programs of fixed work precisely, in user mode
# alone, so that the addresses are the same wherever the program runs. Prints, for each case, how
# many records there were, how many PMIs they took, and the digest of their addresses in order; what
# each address had; and the shares of the functions of /br_instr. Run by busybox sh in the guest.
#
# Words of the kernel's command line:
#   pmv.pebs=few|some|all
#                        few: instructions alone, which all that have PEBS sample; all: also branch
#                        records, call chains, data accesses of all kinds, BTS
#   pmv.rounds=40000     of /br_instr
set -u
export job=pebs
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

region_record=2400 # around the whole perf record of /br_instr
region_plain=2401  # /br_instr's own, without perf
region_large=2402  # sampled, the buffer emptied where it is full
region_each=2403   # sampled with a PMI for each record
data=/tmp/pebs.data
log=/tmp/pebs.log
list=/tmp/pebs.list

pmis() {
    awk '$1 == "PMI:" { print $2 }' /proc/interrupts
}

# `perf record` of one case; the fields of its samples that make its list.
try() { # try NAME FIELDS RECORD...
    name=$1 fields=$2
    shift 2
    before=$(pmis)
    perf record -N -o $data "$@" > $log 2>&1 || give_up "$name: $(tail -n 1 $log)"
    after=$(pmis)
    perf script -i $data -F "$fields" > $list 2> $log || give_up "$name: $(tail -n 1 $log)"
    lost=$(perf report -i $data --stats 2> /dev/null |
        awk '/LOST|THROTTLE/ { n += $3 } END { print n + 0 }')
    echo "pebs: case=$name records=$(grep -c . $list) pmis=$((after - before)) lost=$lost" \
        "digest=$(md5sum < $list | cut -c 1-16)"
}

# timed ITEM COMMAND...: what it took, perf's start and end with it; for machines: in the emulator
# it is no time.
timed() {
    item=$1
    shift
    began=$(/region tsc)
    "$@"
    took=$(($(/region tsc) - began))
    say "$item" "ops=1 metric=time unit=tsc n=1 min=$took median=$took p95=$took"
}

# What each address had: "event: address".
by_address() {
    sort $list | uniq -c |
        awk -v name="$name" '{ print "pebs: case=" name " event=" $2 " ip=" $3 " records=" $1 }'
}

which=$(word pmv.pebs some)
case $which in
    few) also= shares=cpu/event=0xc0/upp ;;
    some | all) also=,branches:upp shares=instructions:uppp ;;
    *) give_up "pmv.pebs=$which, wanted few, some or all" ;;
esac
rounds=$(whole pmv.rounds 40000) || exit 1
# The letter's report has the kernel's functions, too: those of a program that hardly leaves it.
if [ "$which" = all ]; then
    perf record -N -o $data -e instructions:ppp -c 2003 \
        dd if=/dev/zero of=/dev/null bs=4096 count=4000 > $log 2>&1 ||
        give_up "kernel: $(tail -n 1 $log)"
    perf report -i $data --stdio --sort symbol -F overhead,symbol --percent-limit 1 2> /dev/null |
        awk '$1 ~ /%$/ {
            sub(/%/, "", $1)
            print "pebs: case=kernel mode=" $2 " function=" $3 " share=" $1
        }' |
        tr -d '[]'
fi
hide_kernel_symbols
# In this order: without a limit of time the rate cannot be set any more.
echo 1000000 > /proc/sys/kernel/perf_event_max_sample_rate
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
dmesg | sed -n 's/.*Performance Events: /pebs: driver="/p' | sed 's/$/"/'

try loop event,ip -e instructions:uppp$also${also:+,cycles:upp} -c 10007 /loop
by_address
[ "$which" = few ] ||
    try access event,ip,addr -d -e instructions:uppp,cpu/mem-loads,ldlat=30/upp,cpu/mem-stores/upp \
        -c 101 /access
timed plain /br_instr "$rounds" $region_plain
/region $region_record begin
timed large try br_instr event,ip,sym -e $shares$also -c 10007 \
    /br_instr "$rounds" $region_large
/region $region_record end
# Shares, in percent of the samples of the first event.
awk -v of_event="$shares:" '$1 == of_event { n++; of[$3]++ }
    END {
        for (f in of)
            printf "pebs: case=br_instr function=%s share=%.2f\n", f, 100 * of[f] / n
    }' $list | sort
[ "$which" = few ] || timed each try each event,ip -b -m 1024 -e instructions:uppp -c 10007 \
    /br_instr "$rounds" $region_each

# IA32_PEBS_ENABLE, where a hypervisor refuses a counter that it offers.
write='unchecked MSR access error: WRMSR to 0x3f1 (tried to write'
dmesg | sed -n "s/.*$write \(0x[0-9a-f]*\)).*/pebs: refused=\1/p"
if [ "$which" = all ]; then
    try brstack ip,brstack -b -e instructions:uppp -c 100003 /br_instr "$rounds"
    try prec_dist event,ip -e cpu/event=0xc0,umask=1/uppp -c 10007 /br_instr "$rounds"
    try callgraph ip,sym --call-graph lbr -e instructions:upp -c 100003 /br_instr "$rounds"
    try weight event,ip,addr,weight -d --weight -e cpu/mem-loads,ldlat=3/upp -c 11 /access
    try registers ip,iregs --intr-regs=ax,bx,cx,dx,si,di,bp,sp,r8,r15 -e branches:uppp -c 10007 \
        /br_instr "$rounds"
    # As a user calls it: by frequency, all of the machine's levels; no list to compare.
    perf mem record -t load -o $data /access > $log 2>&1 || give_up "mem: $(tail -n 1 $log)"
    perf mem report -i $data --stdio 2> /dev/null |
        awk '/Local RAM|L1|L2|L3/ { n += $2 } END { print "pebs: case=mem records=" n + 0 }'
    # Every branch, by the branch trace store.
    try bts ip,addr -d -e branches:u -c 1 /br_instr 100
fi
