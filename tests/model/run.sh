#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Checks the model of the NMI bookkeeping (nmi.pml) with spin, every reachable state of it: whole, it
# must hold; with one mechanism off or a wrong one in its place, it must give a counterexample of the
# expected kind. One line for each, PASS or FAIL; without spin, one SKIP and status 77.
# Usage: run.sh [word]: only those whose name has the word.
set -euo pipefail

LIMIT=21600     # seconds for one check: a backstop, what counts is its depth and memory
MEMORY=3000     # MiB for one check
DEPTH=1000000   # longest path; one that is longer makes the check fail

if ! command -v spin > /dev/null; then
    echo "SKIP model: spin is missing; run: testbed/deps.sh check"
    exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
only=${1:-}
failed=0
ran=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check holds|EXPRESSION NAME SWITCH...: EXPRESSION is part of the assertion that must be violated.
check() {
    local wanted=$1 name=$2 switches=() switch output verdict reason states
    shift 2
    [[ $name == *"$only"* ]] || return 0
    ran=$((ran + 1))
    for switch in "$@"; do switches+=("-D$switch"); done
    cd "$work"
    rm -f pan ./*.trail
    cp "$here"/*.pml .
    spin "${switches[@]}" -a nmi.pml > spin.out
    "${CC:-gcc}" -O1 -w -DSAFETY -DNOFAIR -DMEMLIM=$MEMORY -o pan pan.c
    output=$(timeout $LIMIT ./pan -m$DEPTH -w22 2>&1) || true
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' <<< "$output")
    reason=$(sed -n 's/^pan:1: \(.*\) (at depth .*/\1/p' <<< "$output")
    if grep -q 'max search depth too small\|Search not completed\|pan: reached' <<< "$output" ||
        ! grep -q 'errors: ' <<< "$output"; then
        # A counterexample ends the search, and is one whatever else has not been searched.
        [ -n "$reason" ] && [[ $reason != *"max search"* ]] || reason='not checked to the end'
    fi
    verdict=FAIL
    if [ "$wanted" = holds ]; then
        [ -n "$reason" ] || verdict=PASS
    else
        [[ $reason != *"$wanted"* ]] || verdict=PASS
    fi
    [ $verdict = PASS ] || failed=1
    echo "$verdict model: $name (${states:-?} states; ${reason:-holds})"
}

check holds 'passthrough'
check holds 'passthrough, unblocked lazily' LAZY
check holds 'passthrough, host work' WORK
check holds 'passthrough, unblocked lazily, host work' WORK LAZY
check holds 'passthrough, two sources' TWO_SOURCES NO_PMU
check holds 'trapped' TRAPPED
check holds 'trapped, host work' TRAPPED WORK
check holds 'switched at run time' SWITCH
check holds 'switched at run time, any guest NMI, no host NMI' SWITCH GUEST_IPI NO_HOST
check holds 'any guest NMI that has been taken once stays' GUEST_IPI KNOWN_ONLY
check holds 'one source, no guest NMI, no hypercall 15: no NMI too many' STRICT NO_PMU UNAWARE
check holds 'the same, trapped' STRICT NO_PMU UNAWARE TRAPPED
check holds 'a guest without the module' UNAWARE

# Mechanisms off.
check 'why' 'no forwarding: a guest NMI is lost' NO_FORWARD
check 'must' 'no lost check: a request is not handled' NO_LOST
check 'blocked' 'no unblocking: host work with NMIs blocked' NO_UNBLOCK WORK
check 'soft_flag' 'forwarding by a flag tested before VMRESUME: late' OLD_SOFTWARE_FLAG
check 'claimed' 'nothing remembered for hypercall 15: a host NMI stays unknown' NO_OWED

# Protocols that look right.
check '|' 'sent left over from an earlier request: an NMI too many' \
    OLD_STALE_SENT STRICT NO_PMU UNAWARE
check 'why' 'guest PMI only if LVTPC was unmasked at the exit: lost' OLD_EVIDENCE
check 'why' 'no note that a guest NMI was forwarded: lost' NO_FORWARDED GUEST_IPI KNOWN_ONLY
check 'open' 'claim in two steps: handled twice' OLD_CLAIM_IN_STEPS
check '|' 'lost check at the exit of the NMI itself: an NMI too many' \
    OLD_LOST_AT_NMI_EXIT TRAPPED STRICT NO_PMU UNAWARE
check 'claimed' 'hypercall 15 waits for sent' OLD_RETURN_SENT
check 'held' 'held NMI released before the hold ends: stuck' OLD_RELEASE_ORDER WORK

# Limits, which no protocol can lift, as an NMI does not say where it comes from.
check '|' 'limit: the NMI of a request handled before reaches the guest' STRICT
check 'why' 'limit: a guest NMI that is no PMI merges with a host NMI' GUEST_IPI
check 'claimed' 'limit: an NMI on its way after its delivery status is idle' IN_FLIGHT

[ $ran -gt 0 ] || { echo "run.sh: no check has '$only' in its name" >&2; exit 1; }
exit $failed
