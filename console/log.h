/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The log: one ring of text, and the places that show it while it is written. Not for NMI context.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_SIZE 16384 /* bytes kept; a power of two */

/* A sink gets each piece of text as it is logged. */
typedef void (*log_sink)(const char *text, size_t length);

/* At most LOG_SINKS sinks; the table is empty at the start. Used by boot/ (firmware text, while
 * boot services live), console/serial.c and console/framebuffer.c. */
#define LOG_SINKS 3
void log_add_sink(log_sink sink);
void log_remove_sink(log_sink sink);

/* For the processor that has stopped all others: one of them may have been logging. */
void log_take_over(void);
/* One processor was stopped for good that may have been logging, and nobody else can be. */
void log_unlock_lost(void);

/* Formats (%s %.*s %c %d %u %x %ld %lu %lx, width, `0` and `-` flags) and logs; at
 * most 511 bytes at a time. */
void log_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Copies out of the ring: from byte number `position` (counted since the start), at most `size`
 * bytes. Gives the number of bytes copied, 0 at the end; *position is moved to the oldest byte kept
 * when that is newer, and past what was copied. */
size_t log_read(uint64_t *position, char *out, size_t size);

/* From here on the ring is at `to`, page-aligned memory of the hypervisor's, with what it has so
 * far: where a start after a reset finds it (console/kept.h). */
struct log_ring;
void log_move(struct log_ring *to);
/* Where it is now, for who writes it to a file (kept_text()). */
const struct log_ring *log_kept(void);
/* The run ends as the guest asked for: no later start is to take the log for that of a crash. */
void log_finish(void);

/* Logs the last `size` bytes (at most half of LOG_SIZE, or they overwrite themselves) once more. */
void log_print_tail(uint64_t size);

/* Formats into a buffer, always terminated. Gives the length that was written. */
size_t format_text(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t format_text_v(char *out, size_t size, const char *format, va_list arguments);

/* console/serial.c: sets up the UART for 115200 8N1 and adds its sink. Absent UART: false. */
_Bool serial_start(uint16_t port);
/* Before it: another rate, 115200 divided by this; 0: the one that firmware has set. */
void serial_set_divisor(uint16_t of_115200);
/* The same, for a report: the guest may have set another rate. */
void serial_restart(void);
/* Takes the sink out again. */
void serial_stop(void);
/* Waits, bounded, until the UART has sent all it was given: call it before the machine goes off. */
void serial_drain(void);
#define SERIAL_COM1 0x3f8
#define SERIAL_COM2 0x2f8

/* console/framebuffer.c: takes the framebuffer's sink out, when there is one: the guest starts, and
 * has the screen. */
void framebuffer_stop(void);
/* Back again, for a report: from the top of the screen, over whatever is there. */
void framebuffer_restart(void);
