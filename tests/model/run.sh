#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Proves the NMI bookkeeping: spin explores nmi.pml with the hypervisor's own C in it. Whole, every
# reachable state must hold (states are told apart by a hash of theirs, spin's HC4). With one line
# of the C, or of the model's hardware, changed, the expected assertion must be violated. One line
# for each, PASS or FAIL; without spin, one SKIP and status 77.
# Usage: run.sh [word]: only those whose name has the word. FULL=1: all combinations whole, too.
set -euo pipefail

SECONDS_MAX=21600 # of one check: a far backstop; the number of states is what bounds it
DEPTH=3000000     # longest path; one that is longer makes the check fail
HASH=24           # bits

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
only=${1:-}

if ! command -v spin > /dev/null; then
    echo "SKIP model: spin is missing; run: testbed/deps.sh check"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
flags=(-O1 -std=gnu11 -w -fno-pie "-I$root/tests/host" "-I$root/include" "-I$root" "-I$root/nmi"
    "-I$root/vmx" "-I$here")
# Small frames without dead values make fewer states that differ in nothing.
hooked=(-Os -fno-inline -ffunction-sections -fdata-sections -fsanitize=thread
    --param tsan-instrument-func-entry-exit=0)
files=(nmi/bookkeeping.c nmi/host_work.c nmi/nmi.c nmi/source.c nmi/exit.c vmx/exit/exit.c
    vmx/vmcs.c tests/model/stay.c)

object() { # SOURCE OUT
    "$cc" "${flags[@]}" "${hooked[@]}" -c -o "$2" "$1"
}

# The search for these switches, compiled once; with a changed model, anew.
search() { # SWITCHES FOLDER OUT
    local kept
    kept=$work/search-$(tr -dc 'A-Z_' <<< "$1").o
    exec 9> "$kept.lock"
    flock 9
    if [ "$2" != "$here" ] || [ ! -f "$kept" ]; then
        # shellcheck disable=SC2086 # words
        (cd "$(mktemp -d -p "$work")" && cp "$2"/*.pml "$here"/events.h . &&
            spin $1 -a nmi.pml > spin.out &&
            "$cc" "${flags[@]}" -DSAFETY -DNOFAIR -DHC4 -DVECTORSZ=4096 -DMEMLIM=16000 -c \
                -o "$3" pan.c)
        [ "$2" != "$here" ] || cp "$3" "$kept"
    else
        cp "$kept" "$3"
    fi
    exec 9>&-
}

# check NAME EXPECTED SWITCHES [FILE SED]: EXPECTED is "holds", or part of the assertion that must
# be violated, here in FILE as SED changes it. "A or B": FILE violates both, and the compiler's code
# decides which one the search meets first.
check() {
    local name=$1 wanted=$2 switches=$3 file=${4:-} change=${5:-} output verdict=FAIL reason states
    local dir objects=() model=$here
    dir=$(mktemp -d -p "$work")
    cd "$dir"
    if [[ $file == *.pml ]]; then
        model=$dir
        cp "$here"/*.pml "$dir"
        sed -i "$change" "$file"
        ! cmp -s "$file" "$here/$file" || {
            echo "FAIL model: $name (changes nothing)"
            return 1
        }
    fi
    for f in "${files[@]}"; do
        if [ "$f" = "$file" ]; then
            sed "$change" "$root/$f" > "$(basename "$f")"
            ! cmp -s "$(basename "$f")" "$root/$f" ||
                {
                    echo "FAIL model: $name (changes nothing)"
                    return 1
                }
            object "$(basename "$f")" changed.o
            objects+=(changed.o)
        else
            objects+=("$work/${f//\//_}.o")
        fi
    done
    search "$switches" "$model" "$dir/pan.o"
    "$cc" -no-pie -Wl,--gc-sections -o pan pan.o "$work/run_code.o" "${objects[@]}"
    output=$(timeout $SECONDS_MAX ./pan -m$DEPTH -w$HASH 2>&1) || true
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' <<< "$output")
    reason=$(sed -n 's/^pan:1: \(.*\) (at depth .*/\1/p' <<< "$output")
    if grep -q 'max search depth too small\|Search not completed\|pan: reached' <<< "$output" ||
        ! grep -q 'errors: ' <<< "$output"; then
        # A counterexample ends the search, and is one whatever else has not been searched.
        [ -n "$reason" ] && [[ $reason != *"max search"* ]] || reason='not checked to the end'
    fi
    if [ "$wanted" = holds ]; then
        [ -n "$reason" ] || verdict=PASS
    else
        [[ $reason != *"${wanted% or *}"* && $reason != *"${wanted#* or }"* ]] || verdict=PASS
    fi
    echo "$verdict model: $name (${states:-?} states; ${reason:-holds})"
    rm -rf "$dir"
    [ $verdict = PASS ]
}

# Several at once, and a line for each when it ends.
failed=0 ran=0 running=0
limit=$(nproc)
queue() {
    [[ $1 == *"$only"* ]] || return 0
    ran=$((ran + 1))
    if [ $running -ge "$limit" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    check "$@" &
    running=$((running + 1))
}
holds() { queue "$1" holds "$2"; }
changed() { queue "$4: $1" "$2" "$3" "$4" "$5"; }

for f in "${files[@]}"; do object "$root/$f" "$work/${f//\//_}.o"; done
"$cc" "${flags[@]}" -O2 -c -o "$work/run_code.o" "$here/run_code.c"

holds 'passthrough' ''
holds 'passthrough, unblocked lazily' '-DLAZY'
holds 'passthrough, host work' '-DWORK -DNO_HOST'
holds 'passthrough, host work, frozen as before version 4' '-DWORK -DNO_HOST -DLEGACY'
holds 'passthrough, host work beside requests' '-DWORK -DNO_PMU'
holds 'passthrough, host work, any guest NMI that has been taken once' \
    '-DWORK -DNO_HOST -DGUEST_IPI -DKNOWN_ONLY'
holds 'passthrough, host work beside the platform' '-DWORK -DPLATFORM -DNO_HOST -DNO_PMU'
holds 'passthrough, unblocked lazily, host work' '-DWORK -DLAZY -DNO_PMU'
holds 'passthrough, two sources' '-DPLATFORM -DNO_PMU -DLAZY'
holds 'trapped' '-DTRAPPED -DNO_PMU'
holds 'trapped, PMIs alone' '-DTRAPPED -DNO_HOST'
holds 'trapped, host work' '-DTRAPPED -DWORK -DNO_PMU'
holds 'switched at run time' '-DSWITCH -DNO_PMU'
holds 'switched at run time, any guest NMI, no host NMI' '-DSWITCH -DGUEST_IPI -DNO_HOST'
holds 'one source, no guest NMI, no hypercall 15: no NMI too many' '-DSTRICT -DNO_PMU -DUNAWARE'
holds 'the same, unblocked lazily' '-DSTRICT -DNO_PMU -DUNAWARE -DLAZY'
holds 'the same, trapped' '-DSTRICT -DNO_PMU -DUNAWARE -DTRAPPED'
holds 'the same, host work' '-DSTRICT -DNO_PMU -DUNAWARE -DWORK'
if [ "${FULL:-0}" = 1 ]; then
    holds 'any guest NMI that has been taken once stays' '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU'
    holds 'a guest without the module' '-DUNAWARE'
    holds 'passthrough, host work beside requests, frozen as before version 4' \
        '-DWORK -DNO_PMU -DLEGACY'
    holds 'whole: passthrough, host work' '-DWORK'
    holds 'whole: passthrough, unblocked lazily, host work' '-DWORK -DLAZY'
    holds 'whole: passthrough, two sources' '-DPLATFORM'
    holds 'whole: trapped' '-DTRAPPED'
    holds 'whole: trapped, host work' '-DTRAPPED -DWORK'
    holds 'whole: switched at run time' '-DSWITCH'
    holds 'whole: any guest NMI that has been taken once stays' '-DGUEST_IPI -DKNOWN_ONLY'
fi

# ---- one line of the hypervisor changed ----
f=nmi/nmi.c
changed 'a guest PMI that merged with a host NMI is not looked for' nmi_why '' $f \
    's/!nmi_may_include_guest_nmi(cpu)/true/'
changed 'what a host source claims is the guest'"'"'s as well' doubt '-DNO_PMU' $f \
    's/!nmi_may_include_guest_nmi(cpu)/false/'
changed 'what nobody claims is dropped' nmi_why '' $f \
    's/return nmi_forward(cpu) ? NMI_RETURN_BLOCKED : back;/return back;/'
changed 'an NMI during host work blocks it' 'blocked' '-DWORK' $f 's/if (nmi->hold)/if (false)/'

changed 'a forwarded NMI is not noted' nmi_why '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU' $f \
    's/^.*fetch_or(&cpu->nmi.notes, NOTE_FORWARDED.*$/;/'
changed 'nor that this was just now' nmi_why '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU' $f \
    's/NOTE_FORWARDED | NOTE_FRESH, __ATOMIC_RELAXED/NOTE_FORWARDED, __ATOMIC_RELAXED/'

f=nmi/source.c
changed 'a request is answered late while it is being sent' '8|16' '-DSTRICT -DNO_PMU -DUNAWARE' \
    $f \
    's/ || (found == FOUND_LATE \&\& now \& sending)//'
changed 'hypercall 15 waits until a request is sent' returned '' $f \
    's/found == FOUND_LATE \&\&/found != FOUND_IN_ROOT \&\&/'
changed 'nothing is noted for hypercall 15' returned '' $f \
    's/^.*fetch_or(&cpu->nmi.notes, NOTE_OWED.*$/;/'
changed 'a request is taken away without a look at what came meanwhile' quiet '' $f \
    '/while (!__atomic_compare_exchange_n(&cpu->nmi.notes, &now, now & ~asked, false,/{
        s/!__atomic/cpu->nmi.notes = now \& ~asked, false \&\& !__atomic/
        s/now & ~asked, false,/now, false,/
    }'

f=nmi/bookkeeping.c
changed 'the sender takes its request back' returned '-DNO_PMU' $f \
    's/sent ? ~sending : ~(asked | sending)/~(asked | sending)/'
changed 'the request is noted as sent before it is' '8|16' '-DSTRICT -DNO_PMU -DUNAWARE' $f \
    's/fetch_or(&target->nmi.notes, asked | sending,/fetch_or(\&target->nmi.notes, asked,/'
changed 'notes are struck out in the stay that made them' nmi_why \
    '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU' $f \
    's/__ATOMIC_ACQ_REL) & NOTE_FRESH)/__ATOMIC_ACQ_REL) \& 0)/'
changed 'notes are struck out although an NMI came' nmi_why '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU' $f \
    's/if (now & NOTE_FRESH)/if (false)/'
changed 'fresh is for ever' quiet '-DNO_HOST' $f 's/~NOTE_FRESH/~0u/'
changed 'the host'"'"'s NMI is forgotten while it is being sent' returned '' $f \
    's/guest_is_done && !(now & NOTES_SENDING)/guest_is_done/'
changed 'the host'"'"'s NMI is forgotten while the guest is in its handler' returned '' $f \
    's/bool guest_is_done = .*/bool guest_is_done = true;/'
changed 'nothing is struck out' quiet '-DNO_HOST' $f 's/^ *clear_expired_notes(cpu);/;/'
changed 'hypercall 15 looks too early at what is owed' returned \
    '-DGUEST_IPI -DKNOWN_ONLY -DNO_PMU' $f \
    '/^int64_t nmi_claim_unknown/,/^}/{
        s/unsigned claimed/uint32_t notes = cpu->nmi.notes; unsigned claimed/
        s/__atomic_load_n(&cpu->nmi.notes, __ATOMIC_RELAXED)/notes/
    }'
changed 'the exit looks for nothing lost' must '-DNO_PMU' $f 's/^.*notes_mask |= NOTES_ASKED;/;/'
changed 'nothing lost is looked for while NMIs are trapped' must '-DSWITCH -DNO_PMU' $f \
    's/if (o->bookkeeping & BOOKKEEPING_LOST)/if (nmi->passthrough)/'
changed 'an NMI exit'"'"'s own NMI is taken for lost' '8|16' \
    '-DSTRICT -DNO_PMU -DUNAWARE -DTRAPPED' $f \
    's/reason == EXIT_REASON_EXCEPTION_OR_NMI/false/'
changed 'what waits behind a blocked root mode is taken for lost' '8|16' \
    '-DSTRICT -DNO_PMU -DUNAWARE -DLAZY' $f 's/nmi->unblock_mask != 0)/true)/'
changed 'host work begins blocked' blocked '-DWORK -DNO_HOST' $f \
    '/^void nmi_hold/,/^}/s/nmi_unblock();/;/'
changed 'the hold does not end' hold '-DWORK -DNO_HOST' $f 's/nmi->hold = false;//'
changed 'what was held is dropped' held_why '-DWORK -DNO_HOST' $f \
    '/^void nmi_release/,/^}/s/(void)nmi_forward(cpu);//'

f=nmi/exit.c
changed 'an NMI exit does not look for a merged PMI' exit_why '-DTRAPPED' $f \
    's/nmi_may_include_guest_nmi(cpu)/false/'
changed 'an NMI is injected into a guest that blocks' bit3 '-DTRAPPED -DNO_HOST' $f \
    's/if (cpu->blocking & (BLOCKING_BY_NMI.*/if (false) {/'
changed 'a virtual NMI is not noted' exit_why '-DTRAPPED -DNO_HOST' $f 's/cpu->nmi.due = true;.*/;/'
changed 'no window is asked for' window '-DTRAPPED -DNO_HOST' $f \
    's/vmcs_set_primary_controls(PRIMARY_NMI_WINDOW_EXITING, true);//'
changed 'a window leaves the NMI due' window '-DTRAPPED -DNO_HOST' $f \
    '/^void exit_nmi_window/,/^}/s/cpu->nmi.due = false;//'
changed 'what is due is dropped at a switch' due_why '-DSWITCH -DNO_HOST' $f \
    's/(void)nmi_forward(cpu);//'

changed 'root mode stays blocked' '8|16' '-DSTRICT -DNO_PMU -DUNAWARE' vmx/exit/exit.c \
    's/nmi_unblock();//'
changed 'the exit does not call the bookkeeping' quiet '-DNO_PMU' vmx/exit/exit.c \
    's/if (__builtin_expect(nmi_has_exit_work(cpu), 0))/if (false)/'

# Host work: its PMIs, and the NMIs beside them.
f=nmi/nmi.c
changed 'host work is not paused' machine.counting '-DWORK -DNO_HOST' $f \
    's/host_work_stop_counter(cpu) ?/false ?/'
f=nmi/source.c
changed 'the pause lets the counter run' counting '-DWORK -DNO_PMU' $f \
    '/^bool host_work_stop_counter/,/^}/s/wrmsr(IA32_PERF_GLOBAL_CTRL, 0);//'
changed 'a PMI of host work is dropped' 128 '-DWORK -DNO_HOST' $f \
    's/return status & STATUS_COUNTER_0;/return false;/'
changed 'another NMI claims the overflow before the PMI comes' 'pending_why)&4' '-DWORK -DNO_PMU' \
    $f \
    's/ || !(apic_lvtpc_read() & LVT_MASKED)//'
changed 'one NMI is claimed by host work and by another source' '8|16' \
    '-DSTRICT -DNO_PMU -DUNAWARE -DWORK' $f 's/if (s == SOURCE_HOST_PMI)/if (false)/'
changed 'a late PMI of the guest'"'"'s stops the counter for good' counting \
    '-DWORK -DNO_HOST -DGUEST_IPI -DKNOWN_ONLY' $f \
    '/^ *wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status);/{
        s/^/if (!(status \& STATUS_COUNTER_0)) return false;/
    }'
changed 'the handler of a late PMI starts the counter again after its end' counting \
    '-DWORK -DNO_HOST' \
    $f 's/return work->counting;/return true;/'
f=nmi/host_work.c
changed 'a late PMI of the guest'"'"'s comes before host work is noted' \
    '!(unclaimed) or pending_why)&4' \
    '-DWORK -DNO_HOST -DGUEST_IPI -DKNOWN_ONLY' $f \
    '/^    cpu->pmu.host_work = work;/d
    s/^    count_branches(work);/    cpu->pmu.host_work = work;\n&/'
changed 'host work does not wait for its last PMI' unclaimed '-DWORK -DNO_HOST' $f \
    '/^static void count_branches(/,/^}/s/i < LATE_PMI_READS/false/'
changed 'host work does not wait for the guest'"'"'s PMI' 'pending_why)&4' '-DWORK -DNO_HOST' $f \
    '/^static uint32_t read_guest_lvtpc/,/^}/s/i < LATE_PMI_READS/false/'
changed 'host work leaves its LVTPC' lvtpc_masked '-DWORK -DNO_HOST' $f \
    's/apic_lvtpc_write(lvtpc);/;/'
changed 'host work'"'"'s counter is not stopped' counting '-DWORK -DNO_HOST' $f \
    's/^    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);//'

# ---- one line of the model's hardware changed: the C relies on it ----
changed 'an entry unblocks' in_handler '-DNO_HOST' nmi.pml \
    's/:: PASSED -> blocked = bit3$/:: PASSED -> blocked = false/'
changed 'blocking does not block' in_handler '-DNO_HOST' world.pml \
    's/^#define NMI_TAKEN .*/#define NMI_TAKEN pending/'
changed 'an exit unblocks' in_handler '-DNO_HOST' nmi.pml \
    's/:: PASSED -> bit3 = blocked$/:: PASSED -> bit3 = false/'

# ---- limits, which no protocol can lift, as an NMI does not say where it comes from ----
queue 'limit: the NMI of a request handled before reaches the guest' '8|16' '-DSTRICT'
queue 'limit: a guest NMI that is no PMI merges with a host NMI' nmi_why '-DGUEST_IPI'
queue 'limit: an NMI on its way after its delivery status is idle' returned '-DIN_FLIGHT'

[ $ran -gt 0 ] || {
    echo "run.sh: no check has '$only' in its name" >&2
    exit 1
}
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
