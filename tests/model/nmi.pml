/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The proof of the NMI bookkeeping, for spin: one processor with its NMI latch and blocking, a guest
 * that takes NMIs and PMIs at any moment, another processor that asks it for something, and host
 * work. The hypervisor in it is the project's own C: nmi/ and vmx_exit(), compiled for the host and
 * run from one access of shared state to the next (run_code.c). run.sh checks it whole, and with one
 * line of the C, or of this model's hardware, changed at a time.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Guest Interruptibility State"; "Virtual NMIs".
 *
 * Asserted, in every state that can be reached:
 *   1. A guest NMI leads to the guest's handler, once; it never nests. NMIs merge in the latch.
 *   2. A host request is handled exactly once, and not later than in the first root stay that can
 *      know that its NMI has gone to the guest.
 *   3. An NMI in the guest's handler that is not the guest's is one that hypercall 15 takes back.
 *   4. Host work runs with NMIs unblocked and its counter on, and the counter is on nowhere else.
 *      Each of its overflows leads to one PMI that is claimed once, and the guest gets no NMI of it.
 *   5. The guest gets an NMI in doubt only where one of its own may have merged with the host's; and
 *      the second stay in which nothing happens leaves no note behind of anything under way.
 */

/* Switches, given and explained by run.sh: what takes part (TRAPPED, SWITCH, LAZY, WORK, PLATFORM,
 * GUEST_IPI, NO_HOST, NO_PMU, UNAWARE), and what is asked for too much (STRICT, IN_FLIGHT, and
 * GUEST_IPI without KNOWN_ONLY). */

c_decl {
    \#include "run_code.h"
}
c_track "&the_cpu.nmi" "sizeof(struct cpu_nmi)"
c_track "&the_cpu.blocking" "sizeof(uint32_t)"
c_track "&the_cpu.pmu.host_work" "sizeof(struct host_work *)"
c_track "&the_work" "sizeof(struct host_work)"
c_track "&machine" "sizeof(struct machine)"
c_track "coroutines" "sizeof(coroutines)"

#include "events.h"
#include "world.pml"

#ifdef TRAPPED
#define PASSTHROUGH 0
#else
#define PASSTHROUGH 1
#endif
#ifdef LAZY
#define UNBLOCK_LAZY 1
#else
#define UNBLOCK_LAZY 0
#endif
#ifdef PLATFORM
#define PLATFORM_HOST 1
#else
#define PLATFORM_HOST 0
#endif
#ifdef LEGACY
#define LEGACY_FREEZE 1
#else
#define LEGACY_FREEZE 0
#endif

#define PASSED c_expr { machine.passthrough }
#define WINDOW c_expr { machine.window }
#define SENDING c_expr { machine.sending }
#define FORWARDED c_expr { machine.forwarded }
#define FRESH c_expr { machine.fresh }
#define OWED c_expr { machine.owed }

inline now_known(why)
{
    if
    :: why & CAUSE_IPI -> why = why & ~CAUSE_IPI | CAUSE_KNOWN
    :: else
    fi
}

/* Runs `co` to its next event that takes time, and keeps account of those that do not. */
inline run_code(co)
{
    who = co;
    do
    :: c_code { machine.lvtpc_masked = now.lvtpc_masked;
                machine.overflow = now.overflow;
                machine.pmi_raised = now.lvtpc_masked &&
                                     (machine.hosts ? machine.host_overflow : now.overflow);
                now.event = model_run(now.who);
                now.lvtpc_masked = machine.lvtpc_masked;
                now.overflow = machine.overflow;
                machine.lvtpc_masked = machine.overflow = 0; };
        if
        :: event == E_ASKED -> asked = true
        :: event == E_ANSWERED ->
            assert(asked); /* else twice, or never asked for */
            asked = false;
            must = false;
            answered++
        :: event == E_PLATFORM ->
            assert(line);
            line = false;
            answered++
        :: event == E_PMI ->
            assert(unclaimed); /* else the counter has not overflowed, or the PMI is claimed twice */
            unclaimed = false;
            answered++;
            if
            :: nmi_why & CAUSE_WORK -> nmi_why = nmi_why & ~CAUSE_WORK
            :: !(nmi_why & CAUSE_WORK) && pending_why & CAUSE_WORK ->
                /* The PMI came while another NMI's handler ran, and that one claims it. Its own NMI,
                 * which waits, stands for the other one then. */
                pending_why = pending_why & ~CAUSE_WORK | nmi_why;
                nmi_why = 0
            :: else ->
                /* A late PMI of the guest's has masked LVTPC. If the host's own PMI still comes, its
                 * NMI stands for that one. */
                assert((nmi_why | pending_why) & CAUSE_SEEN);
                if
                :: !(nmi_why & CAUSE_SEEN) ->
                    pending_why = pending_why & ~CAUSE_SEEN | nmi_why
                :: else
                fi;
                if
                :: host_skid -> work_why = CAUSE_SEEN
                :: else
                fi;
                nmi_why = 0
            fi
        :: event == E_DUE ->
            now_known(exit_why);
            due_why = due_why | exit_why;
            exit_why = 0
        :: event == E_INJECT && reason == R_NMI ->
            now_known(exit_why);
            inject_why = exit_why;
            exit_why = 0
        :: event == E_INJECT && reason != R_NMI -> inject_why = due_why; due_why = 0
        :: else -> break
        fi
    od;
    who = 0
}

/* ---- root mode's NMI handler ---- */
active proctype root_nmi()
{
end:
    do
    :: atomic { !in_guest && !in_nmi && NMI_TAKEN ->
            in_nmi = true;
            blocked = true;
            pending = false;
            nmi_why = pending_why;
            pending_why = 0;
            answered = 0;
            doubt = FORWARDED;
            quiet = false;
            c_code { model_begin(CO_NMI); };
            /* Up to where it stops the counter, the handler's branches count. */
            if
            :: COUNTER_ON && !SKID_DUE -> branch()
            :: true
            fi
        }
    :: atomic { in_nmi && !restart ->
            run_code(CO_NMI);
            assert(event != E_SELF_NMI && event != E_DONE || !(nmi_why & CAUSE_WORK));
            if
            :: event == E_SELF_NMI ->
                now_known(nmi_why);
                if
                :: answered != 0 && !(nmi_why & CAUSES_GUEST) ->
                    assert(doubt || c_expr { machine.pmi_raised });
                    nmi_why = nmi_why | CAUSE_NONE
                :: else
                fi;
                latch(nmi_why);
                nmi_why = 0
            :: event == E_DONE ->
                if
                :: c_expr { the_cpu.nmi.held } ->
                    now_known(nmi_why);
                    held_why = held_why | nmi_why
                :: else -> assert(!(nmi_why & NOT_TO_LOSE))
                fi;
                nmi_why = 0;
                answered = 0;
                doubt = false;
                assert(!COUNTER_ON);
                if
                :: c_expr { machine.restarts } -> restart = true
                :: else ->
                    in_nmi = false;
                    if
                    :: c_expr { machine.unblocks } -> blocked = false
                    :: else
                    fi
                fi
            :: else -> assert(event == E_STEP)
            fi;
            event = 0
        }
    :: atomic { in_nmi && restart && !SKID_DUE -> /* nmi.asm: the counter's start, and IRET */
            restart = false;
            c_code { machine.counting = true; machine.restarts = false; };
            branch();
            in_nmi = false;
            blocked = false
        }
    od
}

/* ---- another processor ---- */
#ifndef NO_HOST
active proctype sender()
{
end:
    do
    :: atomic { !busy && !asked && !flying ->
            busy = true;
            quiet = false;
            c_code { model_begin(CO_SENDER); }
        }
    :: atomic { busy ->
            run_code(CO_SENDER);
            if
            :: event == E_SEND ->
                /* The ICR is written, and its delivery status says idle; or nobody waits for that. */
#ifdef IN_FLIGHT
                flying = true
#else
                latch(CAUSE_HOST)
#endif
            :: event == E_DONE -> busy = false
            :: else -> assert(event == E_STEP)
            fi;
            event = 0
        }
    od
}
#endif

/* ---- guest and hypervisor ---- */

/* The request is complete and its NMI has come and gone. A merged one counts as come. Lazily, root
 * mode stays blocked with the guest; and what an NMI exit has in hand is its handler's. */
#define TAKEN_BY_GUEST \
    (asked && !SENDING && !flying && reason != R_NMI && (!UNBLOCK_LAZY || !bit3 || !PASSED) && \
     !((pending_why | due_why | held_why) & CAUSE_HOST))

inline leave_guest(exit_reason)
{
    in_guest = false;
    reason = exit_reason;
    if
    :: PASSED -> bit3 = blocked
    :: else -> bit3 = virtual_blocked; virtual_blocked = false
    fi;
    must = TAKEN_BY_GUEST;
    was_masked = lvtpc_masked;
    left_fresh = FRESH;
    quiet = reason == R_OTHER && !bit3 && !pending && !flying && !asked && !busy &&
            c_expr { !the_cpu.nmi.due };
    c_code { model_exit(now.reason, now.bit3, now.shadow); }
}

/* The guest's handler begins: nothing nests in it. */
inline enter_handler(why)
{
    assert(!in_handler);
    in_handler = true;
    counting = false;
    handler_why = why;
#ifdef STRICT
    assert(why & ~(CAUSE_HOST | CAUSE_PLATFORM) || (why & CAUSE_HOST && asked) ||
           (why & CAUSE_PLATFORM && line))
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
    c_code { model_start(PASSTHROUGH, UNBLOCK_LAZY, PLATFORM_HOST, LEGACY_FREEZE); };

guest:
end:
    /* One guest step, or what the processor does between two of them. */
    do
    :: atomic { in_guest && NMI_TAKEN && PASSED && !shadow ->
            pending = false;
            blocked = true;
            enter_handler(pending_why);
            pending_why = 0
        }
    :: atomic { in_guest && NMI_TAKEN && !PASSED ->
            pending = false;
            exit_why = pending_why;
            pending_why = 0;
            leave_guest(R_NMI);
            blocked = true
        };
        break
    :: atomic { in_guest && !NMI_TAKEN && WINDOW && !virtual_blocked && !shadow ->
            leave_guest(R_WINDOW)
        };
        break
    :: atomic { in_guest && !(NMI_TAKEN && (!shadow || !PASSED)) ->
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
                leave_guest(R_RETURNED);
                goto root
#endif
            :: in_handler && counting && !shadow -> /* IRET */
                in_handler = false;
                handler_why = 0;
                if
                :: PASSED -> blocked = false
                :: else -> virtual_blocked = false
                fi
            :: leave_guest(R_OTHER); goto root
#ifdef SWITCH
            :: leave_guest(R_SWITCH); goto root
#endif
#ifdef WORK
            :: leave_guest(R_WORK); goto root
#endif
            fi
        }
    od;

root:
    do
    :: atomic { ROOT_STEP && work_left > 0 && !SKID_DUE -> /* host work executes a branch */
            assert(COUNTER_ON);
            work_left--;
            branch()
        }
    :: atomic { ROOT_STEP && work_left == 0 && !(awaits && host_skid) && !(awaits_guest && skid) ->
            awaits = false;
            awaits_guest = false;
            run_code(CO_STAY);
            if
            :: event == E_UNBLOCK -> blocked = false
            :: event == E_SELF_NMI ->
                latch(due_why | held_why);
                due_why = 0;
                held_why = 0
            :: event == E_WORK -> assert(!blocked); work_left = WORK_BRANCHES
            :: event == E_AWAIT -> awaits = true; awaits_guest = true
            :: event == E_BACK ->
                assert(!unclaimed); /* each overflow has led to a PMI that was claimed */
                assert(!COUNTER_ON);
                awaits = true /* it takes longer than a PMI of host work */
            :: event == E_DONE -> event = 0; break
            :: else -> assert(event == E_STEP)
            fi;
            event = 0
        }
    od;
    if
    :: atomic { reason == R_RETURNED ->
            assert(c_expr { machine.returned > 0 } || handler_why & CAUSE_SEEN);
            handler_why = handler_why | CAUSE_IPI /* goes on to its IRET */
        }
    :: else
    fi;

    /* VM entry. */
    atomic { ROOT_STEP ->
        assert(!((exit_why | held_why) & NOT_TO_LOSE));
        assert(c_expr { !the_cpu.nmi.held && !the_cpu.nmi.hold });
        assert(c_expr { the_cpu.nmi.due == machine.window });
        assert(c_expr { the_cpu.nmi.due } || !(due_why & NOT_TO_LOSE));
        assert(!must);
        assert(!was_masked || lvtpc_masked); /* the guest's LVTPC is as it was, or a PMI has come */
        was_masked = false;
        assert(!quiet || (!FRESH && (left_fresh || (!FORWARDED && !OWED))));
        quiet = false;
        left_fresh = false;
        exit_why = 0;
        answered = 0;
        in_guest = true;
        reason = 0;
        c_code { now.bit3 = model_blocks(); };
        if
        :: PASSED -> blocked = bit3
        :: else -> blocked = false; virtual_blocked = bit3
        fi;
        if
        :: c_expr { machine.injection != 0 } ->
            assert(!bit3 && !shadow);
            virtual_blocked = true;
            enter_handler(inject_why);
            inject_why = 0
        :: else
        fi;
        bit3 = false;
        c_code { model_entered(); }
    };
    goto guest
}
