/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The machine around the processors, as the test bed watches it: COM1's output, power-off, reset
 * and the end of the run. Knows I/O ports and host files, no processor.
 */
#pragma once

#include <cstdint>

/* Opens the host files named by the environment and installs the signal handlers. In a server's
 * child once more, with the child's environment. */
void machine_init();

/* The guest writes `len` bytes of `value` to an I/O port. May end the run. */
void machine_outp(uint16_t port, unsigned len, unsigned value);

/* Bochs resets a processor: is it the whole machine's reset, or an INIT? `hardware` is Bochs' own
 * idea, which takes most resets by software for an INIT. */
bool machine_is_reset(bool hardware);

/* Resets the machine as a button does. */
void machine_press_reset();

/* The machine is reset. May end the run. */
void machine_reset();

/* How a run ends. */
enum MachineEnd { END_POWEROFF, END_RESET, END_LIMIT, END_TEXT, END_TIMEOUT, END_EMULATOR };

/* Ends the run here and now, with the ledger written. */
[[noreturn]] void machine_end(MachineEnd how);

/* Bochs is about to leave. Writes the ledger if nothing has ended the run before. */
void machine_exit();
