/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers of a 16550A as far as a program that sends can tell: each byte is out at once, so
 * that the FIFO is always empty and the only interrupt is that of the transmitter. Pure.
 * (National Semiconductor PC16550D data sheet, "Registers".)
 */
#include "uart.h"

#define REG_DATA 0 /* transmitter and receiver; divisor low byte with DLAB */
#define REG_IER 1  /* interrupt enable; divisor high byte with DLAB */
#define IER_THRE 0x02
#define IER_MASK 0x0f
#define REG_IIR_FCR 2 /* interrupt identification; FIFO control when written */
#define IIR_NONE 0x01 /* no interrupt is pending */
#define IIR_THRE 0x02
#define IIR_FIFOS 0xc0
#define FCR_ENABLE 0x01
#define REG_LCR 3
#define LCR_DLAB 0x80
#define REG_MCR 4
#define MCR_DTR 0x01
#define MCR_RTS 0x02
#define MCR_OUT1 0x04
#define MCR_OUT2 0x08
#define MCR_LOOP 0x10
#define REG_LSR 5
#define LSR_THRE_TEMT 0x60 /* room for a byte, and all bytes sent */
#define REG_MSR 6
#define MSR_CTS 0x10
#define MSR_DSR 0x20
#define MSR_RI 0x40
#define MSR_DCD 0x80
#define REG_SCR 7
#define NO_DATA 0

bool uart_interrupt(const struct uart *uart) { return uart->empty && (uart->ier & IER_THRE) != 0; }

/* Reading it takes the transmitter's interrupt back. */
static uint8_t interrupt_identification(struct uart *uart)
{
    uint8_t fifos = uart->fcr & FCR_ENABLE ? IIR_FIFOS : 0;

    if (!uart_interrupt(uart))
        return fifos | IIR_NONE;
    uart->empty = false;
    return fifos | IIR_THRE;
}

/* A cable is there; in loopback, what the modem control outputs say. */
static uint8_t modem_status(uint8_t mcr)
{
    if (!(mcr & MCR_LOOP))
        return MSR_DCD | MSR_DSR | MSR_CTS;
    return (uint8_t)((mcr & MCR_RTS ? MSR_CTS : 0) | (mcr & MCR_DTR ? MSR_DSR : 0) |
                     (mcr & MCR_OUT1 ? MSR_RI : 0) | (mcr & MCR_OUT2 ? MSR_DCD : 0));
}

static void write_ier(struct uart *uart, uint8_t value)
{
    if (value & ~uart->ier & IER_THRE)
        uart->empty = true;
    uart->ier = value & IER_MASK;
}

uint8_t uart_read(struct uart *uart, unsigned reg)
{
    switch (reg) {
    case REG_DATA:
        return uart->lcr & LCR_DLAB ? uart->divisor[REG_DATA] : NO_DATA;
    case REG_IER:
        return uart->lcr & LCR_DLAB ? uart->divisor[REG_IER] : uart->ier;
    case REG_IIR_FCR:
        return interrupt_identification(uart);
    case REG_LCR:
        return uart->lcr;
    case REG_MCR:
        return uart->mcr;
    case REG_LSR:
        return LSR_THRE_TEMT;
    case REG_MSR:
        return modem_status(uart->mcr);
    default:
        return uart->scr;
    }
}

bool uart_write(struct uart *uart, unsigned reg, uint8_t value)
{
    switch (reg) {
    case REG_DATA:
        if (!(uart->lcr & LCR_DLAB)) {
            uart->empty = true;
            return !(uart->mcr & MCR_LOOP);
        }
        uart->divisor[REG_DATA] = value;
        break;
    case REG_IER:
        if (uart->lcr & LCR_DLAB)
            uart->divisor[REG_IER] = value;
        else
            write_ier(uart, value);
        break;
    case REG_IIR_FCR:
        uart->fcr = value;
        break;
    case REG_LCR:
        uart->lcr = value;
        break;
    case REG_MCR:
        uart->mcr = value;
        break;
    case REG_SCR:
        uart->scr = value;
        break;
    default: /* the status registers are read-only */
        break;
    }
    return false;
}
