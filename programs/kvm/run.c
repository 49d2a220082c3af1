/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs the virtual machine: COM1, the reset port, and an end after some time. All other ports and
 * addresses that KVM does not handle itself read as ones and swallow writes, as an empty bus does.
 * The first processor is the main thread's; each other one has a thread, which the program's end
 * ends. (Linux, Documentation/virt/kvm/api.rst, "The kvm_run structure".)
 */
#include "vm.h"

#include <errno.h>
#include <pthread.h>
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

/* The first processor's. */
static struct kvm_run *volatile running;
static pthread_t first_thread;
static volatile sig_atomic_t over;

/* What the processors share, and the lock of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct uart com1;
static bool com1_level;
static const char *machine; /* NULL: it has no name */
static enum vm_end end = VM_END_TIME;
static struct refusal *refusal;

/* For the first processor: the time is over, or another one has met the end. */
static void on_alarm(int signal_number)
{
    (void)signal_number;
    over = 1;
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
    static bool inside; /* a line */

    if (machine != NULL && !inside)
        printf("%s: ", machine);
    inside = byte != '\n';
    putchar(byte);
    if (!inside) {
        fflush(stdout);
        (void)tcdrain(STDOUT_FILENO); /* fails where it is no terminal */
    }
}

static void port_byte(unsigned port, bool out, uint8_t *value)
{
    bool is_com1 = port >= UART_COM1 && port < UART_COM1 + UART_PORTS;

    if (out && is_com1) {
        if (uart_write(&com1, port - UART_COM1, *value))
            send(*value);
    } else if (!out) {
        *value = is_com1 ? uart_read(&com1, port - UART_COM1) : EMPTY_BUS;
    }
}

/* True when the guest reset the machine. That takes an access of one byte: a wider one is to PCI's
 * address register, which lies around the port. */
static bool port_access(struct kvm_run *run)
{
    uint8_t *data = (uint8_t *)run + run->io.data_offset;
    bool out = run->io.direction == KVM_EXIT_IO_OUT;

    for (uint32_t i = 0; i < run->io.count; i++)
        for (unsigned byte = 0; byte < run->io.size; byte++)
            port_byte(run->io.port + byte, out, data++);
    return out && run->io.port == RESET_PORT && run->io.size == 1 && (data[-1] & RESET_NOW) != 0;
}

/* COM1's line to the interrupt controllers, where its level changed. */
static bool carry_interrupt(const struct vm *vm)
{
    struct kvm_irq_level line = {.irq = UART_COM1_IRQ, .level = uart_interrupt(&com1)};

    if (line.level == com1_level)
        return true;
    com1_level = line.level;
    if (ioctl(vm->fd, KVM_IRQ_LINE, &line) == 0)
        return true;
    end = VM_END_ERROR;
    return refuse(refusal, REFUSE_UNSUPPORTED, "KVM: KVM_IRQ_LINE failed (%s); see the kernel log",
                  strerror(errno));
}

static enum vm_end fail(const char *what, unsigned long long value)
{
    refuse(refusal, REFUSE_UNSUPPORTED, "KVM: %s 0x%lx; see the kernel log", what,
           (unsigned long)value);
    return VM_END_ERROR;
}

/* False: the guest goes on. */
static bool handle_exit(struct kvm_run *run)
{
    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        if (!port_access(run))
            return false;
        end = VM_END_RESET;
        return true;
    case KVM_EXIT_MMIO:
        if (!run->mmio.is_write)
            memset(run->mmio.data, EMPTY_BUS, sizeof(run->mmio.data));
        return false;
    case KVM_EXIT_INTR:
        return false;
    case KVM_EXIT_SHUTDOWN:
        end = VM_END_SHUTDOWN;
        return true;
    case KVM_EXIT_FAIL_ENTRY:
        end = fail("the processor refused the VM entry with reason",
                   run->fail_entry.hardware_entry_failure_reason);
        return true;
    case KVM_EXIT_INTERNAL_ERROR:
        end = fail("internal error", run->internal.suberror);
        return true;
    default:
        end = fail("unexpected exit reason", run->exit_reason);
        return true;
    }
}

/* False: the guest goes on. Of several processors that meet an end the first counts. */
static bool took_end(const struct vm *vm, const struct vcpu *vcpu)
{
    bool done = true;

    pthread_mutex_lock(&lock);
    if (!over)
        done = handle_exit(vcpu->run) || !carry_interrupt(vm);
    if (done)
        over = 1;
    pthread_mutex_unlock(&lock);
    return done;
}

static void run_vcpu(const struct vm *vm, const struct vcpu *vcpu)
{
    while (!over) {
        if (ioctl(vcpu->fd, KVM_RUN, 0) >= 0) {
            if (took_end(vm, vcpu))
                break;
        } else if (errno != EINTR && errno != EAGAIN) {
            refuse(refusal, REFUSE_UNSUPPORTED, "KVM: KVM_RUN failed (%s); see the kernel log",
                   strerror(errno));
            end = VM_END_ERROR;
            over = 1;
        }
    }
}

struct other {
    const struct vm *vm;
    const struct vcpu *vcpu;
};

static void *other_thread(void *argument)
{
    const struct other *other = argument;

    run_vcpu(other->vm, other->vcpu);
    pthread_kill(first_thread, SIGALRM);
    return NULL;
}

/* The signal is the first thread's alone. */
static bool start_others(const struct vm *vm)
{
    static struct other others[VM_CPUS_MAX];
    sigset_t alarm;
    pthread_t thread;
    int error = 0;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    for (unsigned i = 1; i < vm->cpus && error == 0; i++) {
        others[i] = (struct other){vm, &vm->vcpus[i]};
        error = pthread_create(&thread, NULL, other_thread, &others[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    return error == 0 || refuse(refusal, REFUSE_NO_MEMORY,
                                "a processor's thread does not start (%s)", strerror(error));
}

enum vm_end vm_run(struct vm *vm, unsigned seconds, const char *name, struct refusal *r)
{
    running = vm->vcpus[0].run;
    machine = name;
    refusal = r;
    first_thread = pthread_self();
    start_timer(seconds);
    if (!start_others(vm))
        return VM_END_ERROR;
    run_vcpu(vm, &vm->vcpus[0]);
    pthread_mutex_lock(&lock);
    fflush(stdout);
    return end;
}
