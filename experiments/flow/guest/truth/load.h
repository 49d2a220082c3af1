/* SPDX-License-Identifier: BSD-2-Clause
 * load.h: processes and threads whose switches are the truth that a trace is scored by.
 */
#pragma once

/* Starts all processes; none works yet. Each is there, with its own page table, till load_end(), so
 * that no table is used twice. Gives 0, or -1 with errno. */
int load_start(void);

/* Lets them work, and comes back when all are done. Gives 0, or -1 where one has failed. */
int load_run(void);

/* Ends them. Gives 0, or -1 where one ended in another way than by exit(0). */
int load_end(void);
