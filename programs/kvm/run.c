/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs the virtual machine: COM1, the reset port, and an end after some time. All other ports and
 * addresses that KVM does not handle itself read as ones and swallow writes, as an empty bus does.
 * (Linux, Documentation/virt/kvm/api.rst, "The kvm_run structure".)
 */
#include "vm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#include "uart.h"

#define RESET_PORT 0xcf9
#define RESET_NOW 0x04 /* the bit whose rise resets */
#define EMPTY_BUS 0xff
/* The timer fires again: a signal just before KVM_RUN is seen by the flag, one before that not. */
#define AGAIN_SECONDS 1

static struct kvm_run *volatile running;
static volatile sig_atomic_t time_over;

static void on_alarm(int signal_number)
{
    (void)signal_number;
    time_over = 1;
    if (running != NULL)
        running->immediate_exit = 1;
}

static void start_timer(unsigned seconds)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_sec = AGAIN_SECONDS};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* A line is out before the guest goes on: a terminal that still sends interrupts what the guest
 * measures next. */
static void send(uint8_t byte)
{
    putchar(byte);
    if (byte == '\n') {
        fflush(stdout);
        (void)tcdrain(STDOUT_FILENO); /* fails where it is no terminal */
    }
}

static void port_byte(struct uart *com1, unsigned port, bool out, uint8_t *value)
{
    bool is_com1 = port >= UART_COM1 && port < UART_COM1 + UART_PORTS;

    if (out && is_com1) {
        if (uart_write(com1, port - UART_COM1, *value))
            send(*value);
    } else if (!out) {
        *value = is_com1 ? uart_read(com1, port - UART_COM1) : EMPTY_BUS;
    }
}

/* True when the guest reset the machine. That takes an access of one byte: a wider one is to PCI's
 * address register, which lies around the port. */
static bool port_access(struct uart *com1, struct kvm_run *run)
{
    uint8_t *data = (uint8_t *)run + run->io.data_offset;
    bool out = run->io.direction == KVM_EXIT_IO_OUT;

    for (uint32_t i = 0; i < run->io.count; i++)
        for (unsigned byte = 0; byte < run->io.size; byte++)
            port_byte(com1, run->io.port + byte, out, data++);
    return out && run->io.port == RESET_PORT && run->io.size == 1 && (data[-1] & RESET_NOW) != 0;
}

/* COM1's line to the interrupt controllers, where its level changed. */
static bool carry_interrupt(struct vm *vm, const struct uart *com1, bool *level, struct refusal *r)
{
    struct kvm_irq_level line = {.irq = UART_COM1_IRQ, .level = uart_interrupt(com1)};

    if (line.level == *level)
        return true;
    *level = line.level;
    if (ioctl(vm->fd, KVM_IRQ_LINE, &line) == 0)
        return true;
    return refuse(r, REFUSE_UNSUPPORTED, "KVM: KVM_IRQ_LINE failed (%s); see the kernel log",
                  strerror(errno));
}

static enum vm_end fail(struct refusal *r, const char *what, unsigned long long value)
{
    refuse(r, REFUSE_UNSUPPORTED, "KVM: %s 0x%lx; see the kernel log", what, (unsigned long)value);
    return VM_END_ERROR;
}

/* False: the guest goes on. */
static bool handle_exit(struct vm *vm, struct uart *com1, enum vm_end *end, struct refusal *r)
{
    struct kvm_run *run = vm->run;

    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        if (!port_access(com1, run))
            return false;
        *end = VM_END_RESET;
        return true;
    case KVM_EXIT_MMIO:
        if (!run->mmio.is_write)
            memset(run->mmio.data, EMPTY_BUS, sizeof(run->mmio.data));
        return false;
    case KVM_EXIT_INTR:
        return false;
    case KVM_EXIT_SHUTDOWN:
        *end = VM_END_SHUTDOWN;
        return true;
    case KVM_EXIT_FAIL_ENTRY:
        *end = fail(r, "the processor refused the VM entry with reason",
                    run->fail_entry.hardware_entry_failure_reason);
        return true;
    case KVM_EXIT_INTERNAL_ERROR:
        *end = fail(r, "internal error", run->internal.suberror);
        return true;
    default:
        *end = fail(r, "unexpected exit reason", run->exit_reason);
        return true;
    }
}

enum vm_end vm_run(struct vm *vm, unsigned seconds, struct refusal *r)
{
    struct uart com1 = {0};
    enum vm_end end = VM_END_TIME;
    bool com1_level = false;

    running = vm->run;
    start_timer(seconds);
    while (!time_over) {
        if (ioctl(vm->vcpu, KVM_RUN, 0) < 0) {
            if (errno == EINTR || errno == EAGAIN)
                continue;
            refuse(r, REFUSE_UNSUPPORTED, "KVM: KVM_RUN failed (%s); see the kernel log",
                   strerror(errno));
            end = VM_END_ERROR;
            break;
        }
        if (handle_exit(vm, &com1, &end, r))
            break;
        if (!carry_interrupt(vm, &com1, &com1_level, r)) {
            end = VM_END_ERROR;
            break;
        }
    }
    fflush(stdout);
    return end;
}
