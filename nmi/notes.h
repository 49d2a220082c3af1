/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The word that both contexts share: cpu->nmi.notes. Each processor has its own word, which records
 * everything that is under way. The processor's NMI handler and its exits change the word, and so
 * do other processors. So each change is one atomic operation, and nobody writes back a value read
 * earlier.
 *
 * The places where an NMI waits, and the record of each:
 *   guest NMI  pending in hardware, sent again by root mode  FORWARDED (FRESH: since the last look)
 *              in software, during host work                 cpu->nmi.held
 *              in software, while NMIs exit (exit.c)         cpu->nmi.due
 *   host NMI   asked for, not answered yet                   ASKED (SENDING: maybe not sent yet)
 *              answered, but its NMI may be with the guest   OWED
 */
#pragma once

#include "vmx/cpu.h"

/* A sender has a request for the source. The sender sets the note before it sends its NMI. Whoever
 * answers the request clears the note. */
#define NOTE_ASKED(source) ((uint32_t)BIT(source))
/* The sender's NMI may not have left yet. Only the sender sets and clears the note. */
#define NOTE_SENDING_SHIFT 8
#define NOTE_SENDING(source) (NOTE_ASKED(source) << NOTE_SENDING_SHIFT)
/* A guest's NMI was sent again and may still wait. nmi_forward() sets the note; an exit clears
 * it. */
#define NOTE_FORWARDED ((uint32_t)BIT(16))
/* The NMI was sent again since an exit last looked. nmi_forward() sets the note; the next look
 * clears it. */
#define NOTE_FRESH ((uint32_t)BIT(17))
/* A host NMI may be with the guest, or on its way. nmi_claim() sets the note; an exit clears it. */
#define NOTE_OWED ((uint32_t)BIT(18))
/* A line for the log is due. A source's handler sets the note; the exit that prints clears it. */
#define NOTE_LOG ((uint32_t)BIT(19))

#define NOTES_ASKED ((uint32_t)BITS(SOURCE_COUNT - 1, 0))
#define NOTES_SENDING (NOTES_ASKED << NOTE_SENDING_SHIFT)
#define NOTES_FOR_EXIT (NOTES_ASKED | NOTE_FORWARDED | NOTE_OWED | NOTE_LOG)
