/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a #GP becomes that is raised while another event is being delivered. Pure.
 * SDM Vol. 3, "Interrupt 8 - Double Fault Exception (#DF)", the tables of exception classes;
 * "Information for VM Exits That Occur During Event Delivery".
 */
#pragma once

#include <stdint.h>

#include "vmx.h"
#include "x86.h"

/* Exceptions that make a double fault with a following #GP: contributory ones and page faults. */
#define MAKES_DOUBLE_FAULT                                                                         \
    (BIT(VECTOR_DE) | BIT(VECTOR_TS) | BIT(VECTOR_NP) | BIT(VECTOR_SS) | BIT(VECTOR_GP) |          \
     BIT(VECTOR_PF) | BIT(VECTOR_VE) | BIT(VECTOR_CP))

enum delivery_fault { DELIVERY_GP, DELIVERY_DOUBLE_FAULT, DELIVERY_SHUTDOWN };

/* `vectoring` is the IDT-vectoring information of the exit. An NMI, an interrupt, INT n or a benign
 * exception whose delivery faults is gone, as it is without VMX: the guest gets the #GP alone. */
static inline enum delivery_fault delivery_fault(uint32_t vectoring)
{
    uint32_t vector = vectoring & (uint32_t)INTERRUPTION_VECTOR;

    if (!(vectoring & INTERRUPTION_VALID) ||
        (vectoring & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT !=
            INTERRUPTION_TYPE_HARDWARE_EXCEPTION)
        return DELIVERY_GP;
    if (vector == VECTOR_DF)
        return DELIVERY_SHUTDOWN;
    return vector < 32 && BIT(vector) & MAKES_DOUBLE_FAULT ? DELIVERY_DOUBLE_FAULT : DELIVERY_GP;
}
