/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The host's NMI sources: who may have raised the NMI that arrived, and how it is answered.
 */
#pragma once

#include "cpu.h"

#define REQUEST_SENT 16 /* shift from "requested" to "sent" in cpu_nmi.requests */
#define REQUEST_LOG BIT(31) /* a line for the log is due: NMI context does not print */
#define REQUEST_WATCH BIT(30) /* cpu_nmi.owed or in_flight is not 0 */
#define REQUESTS_PENDING (BIT(SOURCE_COUNT) - 1)
#define REQUESTS_SENT ((BIT(SOURCE_COUNT) - 1) << REQUEST_SENT)

/* How a source came to be handled. */
enum nmi_found { FOUND_IN_ROOT, FOUND_LATE, FOUND_RETURNED };

/* Asks each source of this processor and handles those that are pending. Gives their number. Safe
 * in NMI context. `rip` is what was interrupted, `in_root` says in which mode. */
unsigned nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root);

/* Asks another processor, or this one, to log where it is: sets the request, sends the NMI, and
 * marks it as sent. One sender at a time for each target. */
bool nmi_request_backtrace(struct cpu *target);

/* The port of the platform's NMIs (chipset data books, "NMI Status and Control Register"). */
#define NMI_STATUS_PORT 0x61
#define NMI_STATUS_SERR BIT(7)
#define NMI_STATUS_IOCHK BIT(6)
#define NMI_STATUS_DISABLES BITS(3, 2) /* IOCHK and SERR: 1 clears the source and disables it */
#define NMI_STATUS_GUEST BITS(1, 0)    /* speaker and timer 2 gate */

/* SERR and IOCHK of port 0x61 (platform_nmi=host): whether one is up, and its acknowledgement. */
bool platform_nmi_pending(const struct cpu *cpu);
void platform_nmi_acknowledge(void);

const char *nmi_source_name(enum nmi_source source);
