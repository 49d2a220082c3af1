/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The log: one ring of text, and the sinks that show the text as it is logged. Not for NMI context.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_SIZE 16384 /* bytes kept; a power of two */

#define LOG_LINE 512 /* longest piece of text that one call can log, with the terminator */

/* A sink gets each piece of text as it is logged, less than LOG_LINE bytes. */
typedef void (*log_sink)(const char *text, size_t length);

/* The places that show text: firmware's screen while boot services live (boot/screen.c), the serial
 * line (console/serial.c), and the framebuffer (console/framebuffer.c). */
enum log_place { LOG_SCREEN, LOG_SERIAL, LOG_FRAMEBUFFER, LOG_PLACES };
/* Sets the sink of a place, or removes it if `sink` is NULL. At the start no place has a sink. */
void log_set_sink(enum log_place place, log_sink sink);

/* Ignores the lock from now on. The processor that has stopped all others calls this function,
 * because a stopped processor may hold the lock. */
void log_ignore_lock(void);
/* Releases the lock, which a processor that was stopped for good may hold. Must not be called while
 * another processor is logging. */
void log_break_lock(void);

/* Formats and logs at most 511 bytes. Knows %s %.*s %c %d %u %x %ld %lu %lx, a width, and the flags
 * `0` and `-`. */
void log_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Copies at most `size` bytes out of the ring, from byte number *position (counted since the
 * start). If the ring no longer has that byte, copies from the oldest byte that the ring has. Moves
 * *position past the bytes copied. Returns the number of bytes copied, 0 at the end. */
size_t log_read(uint64_t *position, char *out, size_t size);

/* Moves the ring and its contents to `to`, which is page-aligned memory of the hypervisor. A start
 * after a reset finds the ring there (console/log_ring.h). */
struct log_ring;
void log_move_ring(struct log_ring *to);
/* Returns the ring's current place, for code that writes the log to a file (log_ring_get_text()).
 */
const struct log_ring *log_get_ring(void);
/* Call this function when the run ends as the guest asked. It keeps the next start from saving this
 * log as the log of a crash. */
void log_finish(void);

/* Shows the last `size` bytes again, between two lines that it logs. The bytes themselves are not
 * logged again. `size` is at most half of LOG_SIZE, because the first line overwrites the oldest
 * bytes. For the processor that has stopped all others, because it takes no lock. */
void log_print_tail(uint64_t size);

/* Formats into a buffer and always terminates the text. Returns the length of the text, without the
 * terminator. */
size_t format_text(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t format_text_v(char *out, size_t size, const char *format, va_list arguments);

/* console/serial.c: sets up the UART for 8N1 at 115200 divided by `divisor`, and adds its sink. If
 * `divisor` is 0, keeps firmware's rate. Returns false if there is no UART. */
_Bool serial_start(uint16_t port, uint16_t divisor);
#define DIVISOR_115200 1
/* Sets up the UART again, for a report: the guest may have set another rate. */
void serial_restart(void);
/* Removes the UART's sink. */
void serial_stop(void);
/* Waits for a limited time until the UART has sent everything. Call this function before the
 * machine goes off. */
void serial_drain(void);
#define SERIAL_COM1 0x3f8
#define SERIAL_COM2 0x2f8

/* console/framebuffer.c: removes the framebuffer's sink, if there is one. Call this function before
 * the guest starts, because the guest owns the screen. */
void framebuffer_stop(void);
/* Adds the sink again for a report. The text starts at the top of the screen and overwrites what is
 * there. */
void framebuffer_restart(void);
