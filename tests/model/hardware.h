/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Included before each file of nmi/ when it is compiled for the model (-include): the hypervisor's
 * own headers, and then the model in the place of each instruction that the host cannot execute.
 */
#pragma once

#include "vmx/cpu.h"
#include "vmx/root/fault.h"

uint64_t model_vmread(uint32_t field);
void model_vmwrite(uint32_t field, uint64_t value);
uint64_t model_rdmsr(uint32_t msr);
void model_wrmsr(uint32_t msr, uint64_t value);
struct cpu *model_cpu(void);
uint8_t model_in(uint16_t port);
void model_out(uint16_t port, uint8_t value);

#define vmcs_read_raw(field) model_vmread(field)
#define vmcs_read_32(field) ((uint32_t)model_vmread(field))
#define vmcs_write_32(field, value) model_vmwrite(field, value)
#define vmcs_read_natural(field) model_vmread(field)
#define rdmsr(msr) model_rdmsr(msr)
#define wrmsr(msr, value) model_wrmsr(msr, value)
#define this_cpu() model_cpu()
#define inb(port) model_in(port)
#define outb(port, value) model_out(port, value)

/* Its inline functions read the model, too. */
#include "vmx/exit/exit.h"
