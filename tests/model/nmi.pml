/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The NMI bookkeeping as a state machine, for spin: one processor with its NMI latch and blocking,
 * its hypervisor (nmi/), a guest that takes NMIs and PMIs at any moment, two processors that send
 * it host NMIs, and host work. run.sh checks it whole, and with one mechanism off at a time.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Guest Interruptibility State"; "Virtual NMIs".
 *
 * Asserted, in every state that can be reached:
 *   1. A guest NMI leads to the guest's handler, once; it never nests. NMIs merge in the latch.
 *   2. A host request is handled exactly once, and not later than in the first root stay that can
 *      know that its NMI has gone to the guest.
 *   3. An NMI in the guest's handler that is not the guest's is one that hypercall 15 takes back.
 *   4. Host work runs with NMIs unblocked.
 * What an NMI was raised for is known to the model alone (CAUSE_*, the *_why variables): hardware
 * does not say. All else is what hardware and hypervisor know.
 */

/* Switches, given and explained by run.sh: what takes part (TRAPPED, SWITCH, LAZY, WORK,
 * TWO_SOURCES, GUEST_IPI, NO_HOST, NO_PMU, UNAWARE), what is broken on purpose (NO_*, OLD_*), and
 * what is asked for too much (STRICT, IN_FLIGHT, and GUEST_IPI without KNOWN_ONLY). */

#include "world.pml"

inline now_known(why)
{
    if
    :: why & CAUSE_IPI -> why = why & ~CAUSE_IPI | CAUSE_KNOWN
    :: else
    fi
}

/* One source, handled: the request's two bits are cleared by one access. */
inline handle(s)
{
    assert(open[s]); /* else twice, or never asked for */
    open[s] = false;
    must[s] = false;
    requested[s] = false;
    sent[s] = false;
    owed = RECENT
}

inline claim(s, count)
{
    if
    :: requested[s] -> handle(s); count++
    :: else
    fi
}

inline claim_late(s, count)
{
#ifdef OLD_SENT_ALONE
    if
    :: sent[s] -> handle(s); count++
#else
    if
    :: requested[s] && sent[s] -> handle(s); count++
#endif
    :: else
    fi
}

#ifdef OLD_EVIDENCE
#define GUEST_MERGED (!masked_at_exit && lvtpc_masked && overflow)
#else
#ifdef NO_FORWARDED
#define GUEST_MERGED (lvtpc_masked && overflow)
#else
#define GUEST_MERGED ((lvtpc_masked && overflow) || forwarded != 0)
#endif
#endif

/* ---- root mode's NMI handler (nmi/nmi.c) ---- */
active proctype root_nmi()
{
    byte why, claimed;
    bool forward;

end:
    do
    :: atomic {
            !in_guest && !in_nmi && NMI_TAKEN ->
            in_nmi = true;
            blocked = true;
            pending = false;
            why = pending_why;
            pending_why = 0;
            claimed = 0
        };
        atomic { claim(0, claimed) };
#ifdef TWO_SOURCES
        atomic { claim(1, claimed) };
#endif
        atomic {
            forward = claimed == 0 || GUEST_MERGED;
            if
            :: forward -> now_known(why)
            :: else
            fi;
            if
            :: claimed == 0 && owed != 0 -> owed = RECENT
            :: else
            fi
        };
        atomic {
            if
#ifdef NO_FORWARD
            :: forward -> assert(!(why & NOT_TO_LOSE)); blocked = false
#else
#ifdef OLD_SOFTWARE_FLAG
            :: forward -> soft_flag = true; soft_why = soft_why | why; blocked = false
#else
            :: forward && hold -> held = true; held_why = held_why | why; blocked = false
            :: forward && !hold ->
                latch(why);
                if
                :: why == 0 || (claimed != 0 && !(why & CAUSES_GUEST)) ->
                    pending_why = pending_why | CAUSE_NONE
                :: else
                fi;
                forwarded = RECENT /* and no IRET: blocked stays */
#endif
#endif
            :: !forward -> assert(!(why & NOT_TO_LOSE)); blocked = false
            fi;
            why = 0;
            claimed = 0;
            forward = false;
            in_nmi = false
        }
    od
}

/* ---- guest and hypervisor ---- */
inline leave_guest(exit_reason)
{
    in_guest = false;
    reason = exit_reason;
#ifdef OLD_EVIDENCE
    masked_at_exit = lvtpc_masked;
#endif
    if
    :: passthrough -> bit3 = blocked
    :: else -> bit3 = virtual_blocked; virtual_blocked = false
    fi
}

/* The guest's handler begins: nothing nests in it. */
inline enter_handler(why)
{
    assert(!in_handler);
    in_handler = true;
    counting = false;
    handler_why = why;
#ifdef STRICT
    assert(why & ~CAUSES_HOST ||
           (why & CAUSE_OF(0) && open[0]) || (why & CAUSE_OF(1) && open[1]))
#endif
}

/* The guest's handler has dealt with the overflow: a PMI still on its way has nothing to tell. */
inline overflow_seen()
{
    overflow = false;
    handler_why = handler_why | CAUSE_PMI; /* it knew what to do */
    if
    :: pending_why & CAUSE_PMI -> pending_why = (pending_why & ~CAUSE_PMI) | CAUSE_SEEN
    :: else
    fi;
    if
    :: due_why & CAUSE_PMI -> due_why = (due_why & ~CAUSE_PMI) | CAUSE_SEEN
    :: else
    fi
}

active proctype processor()
{
    byte claimed;
    bool merged, unblocked;

guest:
end:
    /* One guest step, or what the processor does between two of them. */
    do
    :: atomic { in_guest && NMI_TAKEN && passthrough && !shadow ->
            pending = false;
            blocked = true;
            enter_handler(pending_why);
            pending_why = 0
        }
    :: atomic { in_guest && NMI_TAKEN && !passthrough ->
            pending = false;
            leave_guest(EXIT_NMI);
            exit_why = pending_why;
            pending_why = 0;
            blocked = true
        };
        break
    :: atomic { in_guest && !NMI_TAKEN && window && !virtual_blocked && !shadow ->
            leave_guest(EXIT_WINDOW)
        };
        break
    :: atomic { in_guest && !(NMI_TAKEN && (!shadow || !passthrough)) ->
            if
            :: shadow || !in_handler -> shadow = !shadow /* MOV SS, and the instruction after it */
            :: in_handler && !counting && overflow -> overflow_seen()
            :: in_handler && !counting && !overflow && handler_why & CAUSES_GUEST ->
                lvtpc_masked = false;
                counting = true
            :: in_handler && !counting && !overflow && !(handler_why & CAUSES_GUEST) ->
#ifdef UNAWARE
                handler_why = handler_why | CAUSE_IPI /* goes on as if it were its own */
#else
                leave_guest(EXIT_RETURN);
                goto root
#endif
            :: in_handler && counting && !shadow -> /* IRET */
                in_handler = false;
                handler_why = 0;
                if
                :: passthrough -> blocked = false
                :: else -> virtual_blocked = false
                fi
            :: leave_guest(EXIT_OTHER); goto root
#ifdef SWITCH
            :: leave_guest(EXIT_SWITCH); goto root
#endif
#ifdef WORK
            :: leave_guest(EXIT_WORK); goto root
#endif
            fi
        }
    od;

root:
    /* What an exit by NMI left blocked, its own handler looks after. */
    unblocked = (!bit3 || !passthrough) && (reason != EXIT_NMI || LOST_AT_NMI_EXIT);
#if !defined(LAZY) && !defined(NO_UNBLOCK)
    if
    :: atomic { ROOT_STEP && passthrough && bit3 && reason != EXIT_NMI -> blocked = false };
        unblocked = true
    :: else
    fi;
#endif
    /* The first test after the exit, once for all that it covers. */
    atomic { ROOT_STEP ->
        if
        :: !bit3 && !due && reason != EXIT_NMI && !sending[0] && !sending[1] ->
            forwarded = (forwarded > 0 -> forwarded - 1 : 0);
            owed = (owed > 0 -> owed - 1 : 0)
        :: else
        fi;
        must[0] = TAKEN_BY_GUEST(0);
        must[1] = TAKEN_BY_GUEST(1)
    };
#ifndef NO_LOST
    if
    :: unblocked ->
#ifdef OLD_CLAIM_IN_STEPS
        if
        :: atomic { ROOT_STEP && requested[0] && sent[0] -> skip };
            atomic { ROOT_STEP -> handle(0) }
        :: atomic { ROOT_STEP && !(requested[0] && sent[0]) -> skip }
        fi;
#else
        atomic { ROOT_STEP -> claim_late(0, claimed) };
#endif
#ifdef TWO_SOURCES
        atomic { ROOT_STEP -> claim_late(1, claimed) }
#endif
    :: else
    fi;
#endif

    if
    :: reason == EXIT_NMI ->
        claimed = 0;
        atomic { ROOT_STEP -> claim(0, claimed) };
#ifdef TWO_SOURCES
        atomic { ROOT_STEP -> claim(1, claimed) };
#endif
        atomic { ROOT_STEP ->
            merged = claimed == 0 || GUEST_MERGED;
            if
            :: merged -> now_known(exit_why)
            :: else
            fi;
            if
            :: claimed == 0 && owed != 0 -> owed = RECENT
            :: else
            fi;
            if
            :: merged && (bit3 || shadow) -> due = true; due_why = due_why | exit_why; window = true
            :: merged && !(bit3 || shadow) -> inject = true; inject_why = exit_why
            :: !merged -> assert(!(exit_why & NOT_TO_LOSE))
            fi;
            exit_why = 0
        };
        atomic { ROOT_STEP -> blocked = false }
    :: reason == EXIT_WINDOW ->
        atomic { ROOT_STEP ->
            window = false;
            if
            :: due -> due = false; inject = true; inject_why = due_why; due_why = 0
            :: else
            fi
        }
    :: reason == EXIT_RETURN ->
        claimed = 0;
#ifdef OLD_RETURN_SENT
        atomic { ROOT_STEP -> claim_late(0, claimed) };
        atomic { ROOT_STEP -> claim_late(1, claimed) };
#else
        atomic { ROOT_STEP -> claim(0, claimed) };
#ifdef TWO_SOURCES
        atomic { ROOT_STEP -> claim(1, claimed) };
#endif
#endif
        atomic { ROOT_STEP ->
#ifndef NO_OWED
            claimed = claimed + owed;
#endif
            assert(claimed > 0 || handler_why & CAUSE_SEEN);
            handler_why = handler_why | CAUSE_IPI /* goes on to its IRET */
        }
    :: reason == EXIT_SWITCH ->
        atomic { ROOT_STEP ->
            passthrough = !passthrough;
            if
            :: passthrough && due ->
                due = false;
                window = false;
                forwarded = RECENT;
                latch(due_why);
                due_why = 0
            :: else
            fi
        }
    :: reason == EXIT_WORK ->
        atomic { ROOT_STEP -> hold = true };
#ifndef NO_UNBLOCK
        atomic { ROOT_STEP -> blocked = false };
#endif
        atomic { ROOT_STEP -> assert(!blocked) };
#ifdef OLD_RELEASE_ORDER
        if
        :: atomic { ROOT_STEP && held -> held = false; latch(held_why); held_why = 0 }
        :: atomic { ROOT_STEP && !held -> skip }
        fi;
        atomic { ROOT_STEP -> hold = false }
#else
        atomic { ROOT_STEP -> hold = false };
        atomic { ROOT_STEP ->
            if
            :: held -> held = false; forwarded = RECENT; latch(held_why); held_why = 0
            :: else
            fi
        }
#endif
    :: else
    fi;

#ifdef OLD_SOFTWARE_FLAG
    /* The check before VMRESUME; the registers are loaded after it. */
    atomic { ROOT_STEP ->
        if
        :: soft_flag -> soft_flag = false; latch(soft_why); soft_why = 0
        :: else
        fi
    };
#endif
    /* VM entry. */
    atomic { ROOT_STEP ->
        assert(!soft_flag && !held);
        assert(!must[0] && !must[1]);
        in_guest = true;
        reason = 0;
        masked_at_exit = false;
        claimed = 0;
        merged = false;
        unblocked = false;
        if
        :: passthrough -> blocked = bit3
        :: else -> blocked = false; virtual_blocked = bit3
        fi;
        if
        :: inject ->
            inject = false;
            assert(!bit3 && !shadow);
            virtual_blocked = true;
            enter_handler(inject_why);
            inject_why = 0
        :: else
        fi;
        bit3 = false
    };
    goto guest
}
