/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Bochs' processors do, for the flow log. All do nothing where the knob is not given, before
 * the firmware is done, and in root mode.
 */
#pragma once

#include "flow_log.h"
#include "processor.h"

void flow_event(Processor &p, FlowKind kind, uint64_t value);

/* A VM exit begins, with the processor still the guest's. */
void flow_exit(Processor &p, uint32_t reason);

/* A VM entry has loaded the guest's state. */
void flow_entry(Processor &p);

/* The next instruction is about to be executed. */
void flow_executes(Processor &p);
