/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A server of runs that begin alike. Until the machine first reads its disk, or the sectors of it
 * that are not the same for all, nothing that it does depends on what they hold: there the process
 * stops, and each run that is asked for is a fork of it, which goes on with a disk, knobs, serial
 * line and ledger of its own. Or it stops where the guest's init asks for its words, and a run has
 * those, and outputs, of its own. README.md, "A server of boots", has what is sent over the socket.
 */
#pragma once

#include <cstdint>

/* This process is to become a server: the environment has TB_SERVER, the path of a socket. */
bool fork_server_wanted();

/* The guest writes a register of its first disk's channel: its number of the ports from the data
 * register on. The command register is the last; in a server a command that reads what is the runs'
 * own returns in children alone. */
constexpr unsigned FORK_SERVER_DISK_PORTS = 8;
void fork_server_disk_port(unsigned number, unsigned value);

/* Ends the program with one line, where the knobs are none for a server. */
void fork_server_check();

/* The guest asks for the run's words: TB_WORDS, empty without. In a server that waits for this
 * (TB_SERVER_AT) it returns in children alone. */
const char *fork_server_words();

/* The tick at which this process was forked; 0: it is no child of a server. */
uint64_t fork_server_forked_at();
