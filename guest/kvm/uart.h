/* SPDX-License-Identifier: BSD-2-Clause
 *
 * COM1 of the virtual machine: a UART that always has room and never receives. Pure.
 * (National Semiconductor PC16550D data sheet, "Registers".)
 */
#ifndef PMUVISOR_KVM_UART_H
#define PMUVISOR_KVM_UART_H

#include <stdbool.h>
#include <stdint.h>

#define UART_COM1 0x3f8
#define UART_PORTS 8

struct uart {
    uint8_t divisor[2], ier, lcr, mcr, scr;
};

uint8_t uart_read(const struct uart *uart, unsigned reg);
/* True when the value is a byte sent. */
bool uart_write(struct uart *uart, unsigned reg, uint8_t value);

#endif
