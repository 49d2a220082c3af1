/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A server of runs that begin alike. Until the machine first reads its disk, nothing that it does
 * depends on what the disk holds: there the process stops, and each run that is asked for is a fork
 * of it, which goes on with a disk, knobs, serial line and ledger of its own. README.md, "A server
 * of boots", has what is sent over the socket.
 */
#pragma once

#include <cstdint>

/* This process is to become a server: the environment has TB_SERVER, the path of a socket. */
bool fork_server_wanted();

/* The guest gives its disk this command. In a server it returns in children alone. */
void fork_server_disk_command(unsigned command);

/* The tick at which this process was forked; 0: it is no child of a server. */
uint64_t fork_server_forked_at();
