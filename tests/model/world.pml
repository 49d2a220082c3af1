/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model's world, included by nmi.pml: the state of hardware and guest, and what raises NMIs: the
 * guest's PMU, other guest NMIs, and another processor.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Local Vector Table"; "Interrupt Command Register (ICR)".
 */

/* What an NMI was raised for. Hardware does not say; the model alone knows, in the variables that
 * end in _why. */
#define CAUSE_PMI 1       /* a guest PMI whose overflow its handler has not seen */
#define CAUSE_IPI 2       /* another guest NMI: no register tells of it */
#define CAUSE_SEEN 4      /* a guest PMI whose overflow has been seen: useless natively, too */
#define CAUSE_HOST 8      /* another processor's request */
#define CAUSE_PLATFORM 16 /* the platform, which is the host's */
#define CAUSE_NONE 32     /* nothing: the hypervisor sent it in doubt */
#define CAUSE_KNOWN 64    /* a CAUSE_IPI that the hypervisor has had in its hands already */
#define CAUSE_WORK 128    /* a PMI of host work */
#define CAUSES_GUEST (CAUSE_PMI | CAUSE_IPI | CAUSE_KNOWN)
#ifdef KNOWN_ONLY
#define NOT_TO_LOSE (CAUSE_PMI | CAUSE_KNOWN)
#else
#define NOT_TO_LOSE CAUSES_GUEST
#endif

/* ---- hardware ---- */
bool pending, blocked;   /* the NMI latch; NMI blocking */
byte pending_why;
bool in_guest = true;    /* else root mode */
bool bit3;               /* guest blocking by NMI, as the VMCS has it while in root mode */
bool virtual_blocked;    /* virtual-NMI blocking, in the guest */
bool shadow;             /* blocking by MOV SS or STI */
bool lvtpc_masked, overflow, skid;
byte host_skid;          /* branches + 1 until the PMI of host work comes, at most; 0: none will */
byte work_why = CAUSE_WORK;
#ifdef IN_FLIGHT
bool flying;             /* between the ICR and the latch */
#else
#define flying false
#endif

/* ---- guest ---- */
bool in_handler, counting = true;
byte handler_why;

/* ---- what the model knows of the hypervisor ---- */
bool in_nmi;             /* root mode's NMI handler runs */
byte nmi_why;            /* the NMI in its hand */
byte answered;           /* how many requests it has answered with it */
byte exit_why;           /* the NMI that exited */
byte due_why, held_why, inject_why;
byte reason;             /* of the exit */
byte who, event;         /* events.h */

/* ---- host requests ---- */
bool asked;              /* and not answered */
bool must;               /* this root stay can know that its NMI has gone to the guest */
bool line;               /* the platform's, and not answered */
bool doubt;              /* one of the guest's may be in the NMI handler's hand */
bool quiet;              /* this root stay has met nothing that is under way */
bool left_fresh;         /* at the exit, something had been forwarded since the last look */
bool busy;               /* a sender is at it */

/* ---- host work ---- */
#define WORK_BRANCHES 4  /* one more than leads to a PMI */
byte work_left;          /* branches that it has still to execute */
bool unclaimed;          /* its counter has overflowed, and the PMI is not claimed */
bool awaits, awaits_guest; /* it takes longer than a PMI on its way: of its own, of the guest's */
bool was_masked;         /* LVTPC, at the exit */
bool restart;            /* the NMI handler is about to start its counter again, and to end */

#define NMI_TAKEN (pending && !blocked)
#define ROOT_STEP (!in_guest && !in_nmi && !NMI_TAKEN)

inline latch(why)
{
    pending = true;
    pending_why = pending_why | (why)
}

#define COUNTER_ON c_expr { machine.counting && !machine.frozen }
#define SKID_MAX 2
#define SKID_DUE (host_skid == 1) /* the PMI comes before the next branch */

inline branch()
{
    c_code { now.event = model_branch(); };
    if
    :: event ->
        assert(!unclaimed && !host_skid);
        unclaimed = true;
        host_skid = SKID_MAX
    :: !event && host_skid -> host_skid--
    :: else
    fi;
    event = 0
}

/* A PMI comes, the guest's or the host's: there is one LVTPC. */
inline pmi(why)
{
    if
    :: !lvtpc_masked ->
        lvtpc_masked = true;
        c_code { model_freeze(); };
        latch(why)
    :: else
    fi
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
            :: overflow -> pmi(CAUSE_PMI)
            :: else -> pmi(CAUSE_SEEN)
            fi
        }
#else
    :: false
#endif
#ifdef WORK
    :: atomic { host_skid ->
            host_skid = 0;
            pmi(work_why);
            work_why = CAUSE_WORK
        }
#endif
#ifdef GUEST_IPI
    :: atomic { !(pending_why & CAUSE_IPI) -> latch(CAUSE_IPI) }
#endif
    od
}

#ifdef IN_FLIGHT
active proctype bus()
{
end:
    do
    :: atomic { flying -> flying = false; quiet = false; latch(CAUSE_HOST) }
    od
}
#endif

#ifdef PLATFORM
active proctype platform()
{
end:
    do
    :: atomic { !line ->
            line = true;
            c_code { machine.line = 1; };
            latch(CAUSE_PLATFORM)
        }
    od
}
#endif
