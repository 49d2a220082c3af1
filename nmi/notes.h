/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The word that both contexts share: cpu->nmi.notes. Each processor has its own word, which records
 * all NMI work that is under way. The processor's NMI handler and its exits change the word, and so
 * do other processors. So each change is one atomic operation, and no code writes back a value that
 * it read earlier.
 *
 * The places where an NMI waits, and how each is recorded:
 *   guest NMI  pending in hardware, sent again by root mode  FORWARDED (FRESH: since the last look)
 *              in software, during host work                 cpu->nmi.held
 *              in software, while NMIs exit (exit.c)         cpu->nmi.due
 *   host NMI   asked for, not answered yet                   ASKED (SENDING: maybe not sent yet)
 *              answered, but its NMI may be with the guest   OWED
 */
#pragma once

#include "vmx/cpu.h"

/* A request to the source waits for an answer. The sender sets the note before it sends its NMI.
 * Whoever answers the request clears the note. */
#define NOTE_ASKED(source) ((uint32_t)BIT(source))
/* The NMI of a request may not have been sent yet. Only the sender sets and clears the note. */
#define NOTE_SENDING_SHIFT 8
#define NOTE_SENDING(source) (NOTE_ASKED(source) << NOTE_SENDING_SHIFT)
/* An NMI for the guest was sent again and may still wait. nmi_forward() sets the note; an exit
 * clears it. */
#define NOTE_FORWARDED ((uint32_t)BIT(16))
/* The forwarded NMI was sent after an exit last looked (clear_expired_notes()). nmi_forward() sets
 * the note; the next look clears it. */
#define NOTE_FRESH ((uint32_t)BIT(17))
/* A host NMI may be on its way to the guest, or the guest may be handling it. nmi_claim() sets the
 * note; an exit clears it. */
#define NOTE_OWED ((uint32_t)BIT(18))
/* A line is to be logged. A source's handler sets the note; the exit that prints clears it. */
#define NOTE_LOG ((uint32_t)BIT(19))

#define NOTES_ASKED ((uint32_t)BITS(SOURCE_COUNT - 1, 0))
#define NOTES_SENDING (NOTES_ASKED << NOTE_SENDING_SHIFT)
#define NOTES_FOR_EXIT (NOTES_ASKED | NOTE_FORWARDED | NOTE_OWED | NOTE_LOG)
