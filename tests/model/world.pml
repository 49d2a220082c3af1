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
