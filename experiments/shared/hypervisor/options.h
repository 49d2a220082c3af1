/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option for the rings. The row has the format of boot/option_table.h.
 */
#pragma once

#define TRACE_RING_DEFAULT_MIB 1
#define TRACE_RING_MAX_MIB 256

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(trace_ring, NUMBER, ring_options.mib, TRACE_RING_DEFAULT_MIB, "MiB from 1 to 256",      \
           VALUES(NAME(NULL, TRACE_RING_MAX_MIB)),                                                 \
           "The size in MiB of each processor's ring, which holds the recorded exits: 32,768 "     \
           "records for each MiB. The ring lies in memory below 4 GiB. 0 means 1.")
