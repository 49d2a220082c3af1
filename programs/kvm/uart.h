/* SPDX-License-Identifier: BSD-2-Clause
 *
 * COM1 of the virtual machine: a 16550A that always has room and never receives. Pure.
 * (National Semiconductor PC16550D data sheet, "Registers".)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UART_COM1 0x3f8
#define UART_COM1_IRQ 4
#define UART_PORTS 8

struct uart {
    uint8_t divisor[2], ier, fcr, lcr, mcr, scr;
    bool empty; /* the interrupt "transmitter holding register empty" is pending */
};

uint8_t uart_read(struct uart *uart, unsigned reg);
/* True when the value is a byte sent. */
bool uart_write(struct uart *uart, unsigned reg, uint8_t value);
/* The level of its interrupt line, after any of the two. */
bool uart_interrupt(const struct uart *uart);
