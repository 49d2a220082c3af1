/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers of a 16550 without its FIFOs and interrupts. Pure.
 * (National Semiconductor PC16550D data sheet, "Registers".)
 */
#include "uart.h"

#define REG_DATA 0 /* transmitter and receiver; divisor low byte with DLAB */
#define REG_IER 1  /* interrupt enable; divisor high byte with DLAB */
#define REG_IIR 2
#define IIR_NONE 0x01 /* no interrupt is pending */
#define REG_LCR 3
#define LCR_DLAB 0x80
#define REG_MCR 4
#define MCR_LOOP 0x10
#define REG_LSR 5
#define LSR_THRE_TEMT 0x60 /* room for a byte, and all bytes sent */
#define REG_MSR 6
#define MSR_DCD_DSR_CTS 0xb0
#define REG_SCR 7
#define NO_DATA 0

uint8_t uart_read(const struct uart *uart, unsigned reg)
{
    switch (reg) {
    case REG_DATA:
        return uart->lcr & LCR_DLAB ? uart->divisor[REG_DATA] : NO_DATA;
    case REG_IER:
        return uart->lcr & LCR_DLAB ? uart->divisor[REG_IER] : uart->ier;
    case REG_IIR:
        return IIR_NONE;
    case REG_LCR:
        return uart->lcr;
    case REG_MCR:
        return uart->mcr;
    case REG_LSR:
        return LSR_THRE_TEMT;
    case REG_MSR:
        return MSR_DCD_DSR_CTS;
    default:
        return uart->scr;
    }
}

bool uart_write(struct uart *uart, unsigned reg, uint8_t value)
{
    switch (reg) {
    case REG_DATA:
        if (!(uart->lcr & LCR_DLAB))
            return !(uart->mcr & MCR_LOOP);
        uart->divisor[REG_DATA] = value;
        break;
    case REG_IER:
        *(uart->lcr & LCR_DLAB ? &uart->divisor[REG_IER] : &uart->ier) = value;
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
    default: /* the FIFO control is not kept, the status registers are read-only */
        break;
    }
    return false;
}
