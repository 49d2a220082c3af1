/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A 16550 UART as a log sink: polled, bounded waits, no interrupts. The guest uses the same UART,
 * so the UART's line and modem control registers are restored after every piece of text. (National
 * Semiconductor PC16550D data sheet, "Registers".)
 */
#include <stdbool.h>

#include "bits.h"
#include "console/log.h"
#include "x86.h"

#define UART_THR 0 /* transmitter holding register; with DLAB, low byte of the divisor */
#define UART_IER 1 /* interrupt enable; with DLAB, high byte of the divisor */
#define UART_FCR 2
#define FCR_ENABLE_AND_CLEAR 0x07
#define UART_LCR 3
#define LCR_8N1 0x03
#define LCR_DLAB 0x80
#define UART_MCR 4
#define MCR_DTR_RTS 0x03
#define MCR_LOOP 0x10
#define UART_LSR 5
#define LSR_THRE 0x20 /* room for a byte */
#define LSR_TEMT 0x40 /* all bytes sent */
#define UART_SCR 7    /* scratch */

/* The number of reads of LSR before the UART counts as dead. A byte takes 87 us at 115200, and a
 * port read takes about 1 us. So all the reads take as long as sending several hundred bytes. */
#define WAIT_READS 50000

struct register_write {
    uint8_t offset; /* from the UART's port */
    uint8_t value;
};
#define RATE_WRITES 3 /* the first writes of serial_start(), which set the rate */

static uint16_t uart;         /* I/O port, 0: none */
static uint16_t uart_divisor; /* of 115200 */

static bool wait_for_line_status(uint8_t bit)
{
    for (uint32_t i = 0; i < WAIT_READS; i++)
        if (inb(uart + UART_LSR) & bit)
            return true;
    return false;
}

static bool send_character(char c)
{
    if (!wait_for_line_status(LSR_THRE))
        return false;
    outb(uart + UART_THR, (uint8_t)c);
    return true;
}

static void serial_sink(const char *text, size_t length)
{
    bool alive = true;
    uint8_t line_control = inb(uart + UART_LCR);
    uint8_t modem_control = inb(uart + UART_MCR);

    if (line_control & LCR_DLAB)
        outb(uart + UART_LCR, line_control & (uint8_t)~LCR_DLAB);
    if (modem_control & MCR_LOOP)
        outb(uart + UART_MCR, modem_control & (uint8_t)~MCR_LOOP);

    for (size_t i = 0; i < length && alive; i++)
        alive = (text[i] != '\n' || send_character('\r')) && send_character(text[i]);

    if (modem_control & MCR_LOOP)
        outb(uart + UART_MCR, modem_control);
    if (line_control & LCR_DLAB)
        outb(uart + UART_LCR, line_control);
    if (!alive)
        serial_stop(); /* never wait for a dead UART again */
}

bool serial_start(uint16_t port, uint16_t divisor)
{
    static const uint8_t tests[] = {0x5a, 0xa5}; /* only a scratch register keeps both values */
    const struct register_write writes[] = {
        {UART_LCR, LCR_8N1 | LCR_DLAB},
        {UART_THR, (uint8_t)divisor},
        {UART_IER, (uint8_t)(divisor >> 8)},
        {UART_LCR, LCR_8N1},
        {UART_IER, 0},
        {UART_FCR, FCR_ENABLE_AND_CLEAR},
        {UART_MCR, MCR_DTR_RTS},
    };

    for (size_t i = 0; i < sizeof(tests); i++) {
        outb(port + UART_SCR, tests[i]);
        if (inb(port + UART_SCR) != tests[i])
            return false;
    }
    uart = port;
    uart_divisor = divisor;
    (void)wait_for_line_status(LSR_TEMT); /* else text that firmware still has to send is lost */
    for (size_t i = divisor == 0 ? RATE_WRITES : 0; i < LENGTH_OF(writes); i++)
        outb(port + writes[i].offset, writes[i].value);
    log_set_sink(LOG_SERIAL, serial_sink);
    return true;
}

void serial_restart(void)
{
    if (uart != 0)
        (void)serial_start(uart, uart_divisor);
}

void serial_stop(void)
{
    log_set_sink(LOG_SERIAL, NULL);
    uart = 0;
}

void serial_drain(void)
{
    if (uart != 0)
        (void)wait_for_line_status(LSR_TEMT);
}
