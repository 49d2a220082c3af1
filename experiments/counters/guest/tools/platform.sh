#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# platform.sh: the job `platform`: runs tools that read the platform's registers and the PMU, each as
# Debian packages it, and says how each ended and what it printed. Run by busybox sh as the guest's root.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.platform=quick     which: quick, full (quick ones, too), or NAME/CASE with commas
#   pmv.platform_part=0/1  of these, numbers 0, 1, 2, ...; 2/4 would be numbers 2, 6, 10, ...
# Prints "tool: name=NAME case=CASE status=STATUS seconds=SECONDS", and each line of output (also of errors)
# as "tool-said: NAME/CASE: LINE".
PATH=/bin:/sbin:/usr/bin:/usr/sbin
export PATH
output=/tmp/platform.out

word() { # word KEY FALLBACK
    echo "$(cat /proc/cmdline) ${PMV_WORDS:-}" | tr ' ' '\n' | awk -v key="$1=" -v value="$2" '
        index($0, key) == 1 { value = substr($0, length(key) + 1) }
        END { print value }'
}

wanted() { # wanted NAME/CASE WHEN
    case $which in
        full) true ;;
        quick) [ "$2" = quick ] ;;
        *) echo ",$which," | grep -q ",$1," ;;
    esac
}

tool() { # tool NAME CASE WHEN COMMAND...
    name=$1 case=$2
    wanted "$1/$2" "$3" || return 0
    shift 3
    count=$((count + 1))
    [ $(((count - 1) % ${part#*/})) -eq "${part%/*}" ] || return 0
    before=$(awk '{ print $1 }' /proc/uptime)
    status=0
    # The limit is for what hangs, in seconds of the machine.
    timeout -s KILL 120 "$@" > $output 2>&1 < /dev/null || status=$?
    took=$(awk -v before="$before" '{ print $1 - before }' /proc/uptime)
    echo "tool: name=$name case=$case status=$status seconds=$took"
    sed "s|^|tool-said: $name/$case: |" $output
}

perfctr() { # perfctr CASE WHEN EVENTS-OR-GROUP COMMAND...
    case=$1 when=$2 events=$3
    shift 3
    # By its daemon, which is its default; -f: the watchdog or perf may have a counter, too.
    tool likwid-perfctr "$case" "$when" likwid-perfctr -f -C 0 -g "$events" "$@"
}

which=$(word pmv.platform quick)
part=$(word pmv.platform_part 0/1)
count=0
echo -1 > /proc/sys/kernel/perf_event_paranoid
echo 0 > /proc/sys/kernel/nmi_watchdog
for module in msr rapl intel-cstate; do
    insmod /lib/modules/$module.ko 2> /dev/null
done
cd /tmp || exit 1

# /loop and /access have known numbers of instructions, and print nothing.
tool likwid-topology plain full likwid-topology
tool likwid-topology caches full likwid-topology -c
perfctr events quick INSTR_RETIRED_ANY:FIXC0,BR_INST_RETIRED_ALL_BRANCHES:PMC0 /loop
perfctr ENERGY full ENERGY /loop
perfctr TMA full TMA /loop
perfctr DATA full DATA /access
perfctr FLOPS_DP full FLOPS_DP likwid-bench -t triad -w S0:100kB:1 -i 10
tool likwid-perfctr groups full likwid-perfctr -a
tool likwid-bench copy full likwid-bench -t copy -w S0:100kB:1 -i 10
tool likwid-bench peakflops full likwid-bench -t peakflops_avx -w S0:20kB:1 -i 10
tool likwid-powermeter info full likwid-powermeter -i

event=cpu/umask=0x00,event=0xc4,name=branches/
tool pcm twice full pcm 0.05 -i=2
tool pcm csv full pcm 0.05 -i=1 -csv
tool pcm program full pcm -- /loop
tool pcm-core events full pcm-core 0.05 -i=1 -e $event
tool pcm-core program full pcm-core -e $event -- /loop
tool pcm-msr read full pcm-msr 0x606
# What it does differently where it sees a hypervisor, turned off by its own switch.
export PCM_NO_AWS_WORKAROUND=1
tool pcm four_counters full pcm -- /loop
tool pcm-core four_counters full pcm-core -e $event -- /loop
unset PCM_NO_AWS_WORKAROUND

tool turbostat debug quick turbostat --debug -n 1 -i 0.05
tool turbostat program full turbostat /loop
tool turbostat list full turbostat --list

tool cpupower frequency full cpupower frequency-info
tool cpupower idle full cpupower idle-info
tool cpupower monitor full cpupower monitor /loop
tool cpupower info full cpupower info

tool lstopo console full lstopo-no-graphics --of console
tool lstopo xml full lstopo-no-graphics --of xml
tool hwloc-info depths full hwloc-info

# Long enough for all of its events to have turns.
tool perf topdown quick perf stat -M TopdownL1 sh -c '/loop; /loop; /loop; /loop; /loop; /loop'
tool perf topdown_all full perf stat --topdown -a /loop
tool perf slots full perf stat -x , -e \
    cpu/event=0xe,umask=0x1/u,cpu/event=0xc2,umask=0x2/u,cpu/event=0x9c,umask=0x1/u,cycles:u /loop
# RAPL and residencies by Linux's own drivers, where it has them.
tool perf energy full perf stat -a -e power/energy-pkg/,power/energy-ram/ /loop
tool perf residency full perf stat -a -e cstate_core/c6-residency/,cstate_pkg/c6-residency/ /loop
if [ $count -eq 0 ]; then
    echo "tool: error=\"pmv.platform=$which, wanted quick, full, or NAME/CASE of" \
        "experiments/counters/guest/tools/platform.sh\""
    exit 1
fi
echo "tools: count=$count"
