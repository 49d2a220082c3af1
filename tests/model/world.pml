/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model's world, included by nmi.pml: state of the hardware, the guest, the hypervisor and the
 * requests; and what raises NMIs: the guest's PMU, other guest NMIs, and two other processors.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Local Vector Table"; "Interrupt Command Register (ICR)".
 */

#define CAUSE_PMI 1      /* a guest PMI whose overflow its handler has not seen */
#define CAUSE_IPI 2      /* another guest NMI: no register tells of it */
#define CAUSE_SEEN 4     /* a guest PMI whose overflow has been seen: useless natively, too */
#define CAUSE_HOST 8     /* shifted by the source: a host request */
#define CAUSE_NONE 32    /* nothing: the hypervisor sent it in doubt */
#define CAUSE_KNOWN 64   /* a CAUSE_IPI that the hypervisor has had in its hands already */
#define CAUSES_GUEST (CAUSE_PMI | CAUSE_IPI | CAUSE_KNOWN)
#ifdef KNOWN_ONLY
#define NOT_TO_LOSE (CAUSE_PMI | CAUSE_KNOWN)
#else
#define NOT_TO_LOSE CAUSES_GUEST
#endif
#define CAUSES_HOST (CAUSE_HOST | CAUSE_HOST << 1)

#define SOURCES 2
#ifdef OLD_LOST_AT_NMI_EXIT
#define LOST_AT_NMI_EXIT true
#else
#define LOST_AT_NMI_EXIT false
#endif
#define RECENT 2         /* decays by one at each exit with the guest unblocked */

/* ---- hardware ---- */
bool pending, blocked;   /* the NMI latch; NMI blocking */
byte pending_why;
bool in_guest;           /* else root mode */
bool bit3;               /* guest blocking by NMI, as the VMCS has it while in root mode */
bool virtual_blocked;    /* virtual-NMI blocking, in the guest */
bool shadow;             /* blocking by MOV SS or STI */
bool lvtpc_masked, overflow, skid;

/* ---- guest ---- */
bool in_handler, counting = true;
byte handler_why;

/* ---- hypervisor ---- */
#ifdef TRAPPED
#define FIRST_PASSTHROUGH false
#else
#define FIRST_PASSTHROUGH true
#endif
bool passthrough = FIRST_PASSTHROUGH, due, window, inject;
byte due_why, inject_why;
bool hold, held;
byte held_why;
byte forwarded, owed;    /* RECENT: a guest NMI was made pending; a host NMI may still reach it */
bool in_nmi;             /* root mode's NMI handler runs */
bool soft_flag;          /* OLD_SOFTWARE_FLAG only */
byte soft_why;
bool masked_at_exit;     /* OLD_EVIDENCE only */
mtype = {EXIT_OTHER, EXIT_NMI, EXIT_WINDOW, EXIT_RETURN, EXIT_SWITCH, EXIT_WORK};
mtype reason;
byte exit_why;           /* of the NMI that exited */

/* ---- host requests ---- */
bool requested[SOURCES], sent[SOURCES], sending[SOURCES];
bool flying[SOURCES];    /* between the ICR and the latch */
bool must[SOURCES];      /* this root stay can know that its NMI has gone to the guest */
bool open[SOURCES];      /* asked for and not handled: the model's own knowledge */

#define CAUSE_OF(s) (CAUSE_HOST << (s))
/* The request is complete and its NMI has come and gone. A merged one counts as come. */
#define TAKEN_BY_GUEST(s) \
    (unblocked && open[s] && sent[s] && !flying[s] && \
     !((pending_why | exit_why | due_why | held_why) & CAUSE_OF(s)))
#define NMI_TAKEN (pending && !blocked)
#define ROOT_STEP (!in_guest && !in_nmi && !NMI_TAKEN)

inline latch(why)
{
    pending = true;
    pending_why = pending_why | (why)
}

/* ---- the guest's PMU and other guest NMIs ---- */
active proctype guest_pmu()
{
end:
    do
#ifndef NO_PMU
    :: atomic { in_guest && counting && !lvtpc_masked && !overflow && !skid ->
            overflow = true;
            skid = true
        }
    :: atomic { skid ->
            skid = false;
            if
            :: !lvtpc_masked && overflow -> lvtpc_masked = true; latch(CAUSE_PMI)
            :: !lvtpc_masked && !overflow -> lvtpc_masked = true; latch(CAUSE_SEEN)
            :: else
            fi
        }
#else
    :: false
#endif
#ifdef GUEST_IPI
    :: atomic { !(pending_why & CAUSE_IPI) -> latch(CAUSE_IPI) }
#endif
    od
}

inline latch_atomically(why)
{
    atomic { latch(why) }
}

/* ---- another processor, which asks this one for something ---- */
proctype sender(byte s)
{
end:
    do
    :: atomic { !requested[s] && !flying[s] ->
            requested[s] = true;
            open[s] = true;
            sending[s] = true
        };
        /* The ICR is written, and its delivery status says idle; or nobody waits for that. */
#ifdef IN_FLIGHT
        flying[s] = true;
#else
        latch_atomically(CAUSE_OF(s));
#endif
        atomic {
#ifdef OLD_STALE_SENT
            sent[s] = true;
#else
            if
            :: requested[s] -> sent[s] = true
            :: else
            fi;
#endif
            sending[s] = false
        }
    od
}

#ifdef IN_FLIGHT
active proctype bus()
{
end:
    do
    :: atomic { flying[0] -> flying[0] = false; latch(CAUSE_OF(0)) }
    :: atomic { flying[1] -> flying[1] = false; latch(CAUSE_OF(1)) }
    od
}
#endif

init
{
    atomic {
        in_guest = true;
#ifndef NO_HOST
        run sender(0);
#ifdef TWO_SOURCES
        run sender(1)
#endif
#else
        skip
#endif
    }
}
