/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a C function of the hypervisor stops for when the model runs it: constants for both, C and
 * Promela.
 */
/* Who runs. */
#define CO_STAY 0   /* root mode, from an exit to the next entry */
#define CO_NMI 1    /* its NMI handler */
#define CO_SENDER 2 /* another processor, which asks this one for something */
#define CO_COUNT 3

#define E_NONE 0
#define E_DONE 1     /* the function has returned */
#define E_STEP 2     /* it is about to read or write a word that others write, too */
#define E_UNBLOCK 3  /* nmi_unblock() */
#define E_SELF_NMI 4 /* apic_send_self_nmi() */
#define E_SEND 5     /* apic_send() of an NMI */
#define E_WORK 6     /* host work has started its counter: its branches follow */
#define E_AWAIT 12   /* it waits for a PMI that may be on its way */
#define E_BACK 14    /* the PMU is about to be the guest's again */
/* What the model itself wants to know of, which takes no time. */
#define E_ASKED 7    /* a request was made */
#define E_ANSWERED 8 /* a request was handled */
#define E_PLATFORM 9 /* the platform's NMI was handled */
#define E_DUE 10     /* a virtual NMI was noted */
#define E_INJECT 11  /* one will be injected */
#define E_PMI 13     /* a PMI of host work was claimed */

/* Host work: branches from a PMI to the next one. A PMI takes fewer. */
#define WORK_PERIOD 3

/* Basic exit reasons, and what the guest asks for by VMCALL. */
#define R_NMI 0    /* EXIT_REASON_EXCEPTION_OR_NMI */
#define R_WINDOW 8 /* EXIT_REASON_NMI_WINDOW */
#define R_OTHER 10
#define R_RETURNED 18
#define R_SWITCH 19
#define R_WORK 20
