/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes every processor's PEBS for isolated: where it is not, root mode must be
 * seen to run with the guest's enabled.
 */
#include "pmu/pmu.h"

bool __wrap_pebs_needs_switch(unsigned version) { return false; }
