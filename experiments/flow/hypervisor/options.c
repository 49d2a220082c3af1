/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the options of the flow trace are read into.
 */
#include "experiments/flow/hypervisor/dump.h"
#include "experiments/flow/hypervisor/ports.h"

struct port_options port_options;
uint32_t dump_records;
