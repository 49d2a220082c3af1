/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The values of the flow trace's options.
 */
#include "experiments/flow/hypervisor/dump.h"
#include "experiments/flow/hypervisor/ports.h"

struct port_options port_options;
uint32_t dump_records;
