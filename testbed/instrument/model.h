/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processor model as software sees it beyond what Bochs has: CPUID and MSRs. It stands in front
 * of Bochs' own description of the processor and passes on what it does not change.
 */
#pragma once

#include "processor.h"

/* Puts the model in front of Bochs' CPUID and MSRs of this processor. */
void model_install(Processor &p);

/* Values after power-on and RESET. */
void model_reset(Processor &p);

/* Of these, the registers of the knob `msr`. */
void model_reset_extra(Processor &p);

/* The firmware is done: from now on an MSR that does not exist faults. */
void model_firmware_done();
bool model_firmware_is_done();

/* A write of any MSR begins. */
void model_wrmsr_seen(uint32_t index);

/* What the TSC has counted at this tick of the machine's clock. */
uint64_t model_tsc(uint64_t ticks);
