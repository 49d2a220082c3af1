/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers of a 16550A as far as a program that sends can tell: each byte is out at once, so
 * that the FIFO is always empty and the only interrupt is that of the transmitter. Pure.
 * (National Semiconductor PC16550D data sheet, "Registers".)
 */
#include "uart.h"

#include <linux/serial_reg.h>

#define IER_MASK 0x0f
#define IIR_FIFOS 0xc0
#define NO_DATA 0

bool uart_interrupt(const struct uart *uart)
{
    return uart->empty && (uart->ier & UART_IER_THRI) != 0;
}

/* Reading it takes the transmitter's interrupt back. */
static uint8_t interrupt_identification(struct uart *uart)
{
    uint8_t fifos = uart->fcr & UART_FCR_ENABLE_FIFO ? IIR_FIFOS : 0;

    if (!uart_interrupt(uart))
        return fifos | UART_IIR_NO_INT;
    uart->empty = false;
    return fifos | UART_IIR_THRI;
}

/* A cable is there; in loopback, what the modem control outputs say. */
static uint8_t modem_status(uint8_t mcr)
{
    if (!(mcr & UART_MCR_LOOP))
        return UART_MSR_DCD | UART_MSR_DSR | UART_MSR_CTS;
    return (uint8_t)((mcr & UART_MCR_RTS ? UART_MSR_CTS : 0) |
                     (mcr & UART_MCR_DTR ? UART_MSR_DSR : 0) |
                     (mcr & UART_MCR_OUT1 ? UART_MSR_RI : 0) |
                     (mcr & UART_MCR_OUT2 ? UART_MSR_DCD : 0));
}

static void write_ier(struct uart *uart, uint8_t value)
{
    if (value & ~uart->ier & UART_IER_THRI)
        uart->empty = true;
    uart->ier = value & IER_MASK;
}

uint8_t uart_read(struct uart *uart, unsigned reg)
{
    switch (reg) {
    case UART_TX:
        return uart->lcr & UART_LCR_DLAB ? uart->divisor[UART_TX] : NO_DATA;
    case UART_IER:
        return uart->lcr & UART_LCR_DLAB ? uart->divisor[UART_IER] : uart->ier;
    case UART_IIR:
        return interrupt_identification(uart);
    case UART_LCR:
        return uart->lcr;
    case UART_MCR:
        return uart->mcr;
    case UART_LSR:
        return UART_LSR_THRE | UART_LSR_TEMT;
    case UART_MSR:
        return modem_status(uart->mcr);
    default:
        return uart->scr;
    }
}

bool uart_write(struct uart *uart, unsigned reg, uint8_t value)
{
    switch (reg) {
    case UART_TX:
        if (!(uart->lcr & UART_LCR_DLAB)) {
            uart->empty = true;
            return !(uart->mcr & UART_MCR_LOOP);
        }
        uart->divisor[UART_TX] = value;
        break;
    case UART_IER:
        if (uart->lcr & UART_LCR_DLAB)
            uart->divisor[UART_IER] = value;
        else
            write_ier(uart, value);
        break;
    case UART_FCR:
        uart->fcr = value;
        break;
    case UART_LCR:
        uart->lcr = value;
        break;
    case UART_MCR:
        uart->mcr = value;
        break;
    case UART_SCR:
        uart->scr = value;
        break;
    default: /* the status registers are read-only */
        break;
    }
    return false;
}
