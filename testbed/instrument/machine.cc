// SPDX-License-Identifier: BSD-2-Clause
//
// COM1's output, power-off, reset and the end of the run. COM1 is copied at the port, so that no
// byte is lost in the emulated UART's queue when the machine goes off. ACPI Specification,
// "Power Management 1 Control"; 16550 UART data sheet.
#include "machine.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "bochs.h"
#include "cpu.h"
#include "memory/memory-bochs.h"
#include "pc_system.h"

#include "fork_server.h"
#include "knobs.h"
#include "ledger.h"
#include "limits.h"
#include "part.h"

namespace {

constexpr uint16_t COM1_DATA = 0x3f8;
constexpr uint16_t COM1_LCR = 0x3fb;
constexpr uint16_t COM1_MCR = 0x3fc;
constexpr unsigned LCR_DLAB = 0x80;
constexpr unsigned MCR_LOOPBACK = 0x10;

// The FADT in acpi/ gives this port; SLP_TYP 0 is S5 in its DSDT.
constexpr uint16_t PM1A_CONTROL = 0xb004;
constexpr unsigned PM1_SLP_EN = 1u << 13;
constexpr unsigned PM1_SLP_TYP_SHIFT = 10;
constexpr unsigned PM1_SLP_TYP_MASK = 7;
constexpr unsigned SLP_TYP_S5 = 0;

// The first register of the disk's controller.
constexpr uint16_t ATA_FIRST = 0x1f0;

// The ways to reset a PC: the chipset's register (the FADT's), the keyboard controller, port 0x92.
constexpr uint16_t RESET_CONTROL = 0xcf9;
constexpr unsigned RESET_CONTROL_CPU = 1u << 2;
constexpr uint16_t KEYBOARD_COMMAND = 0x64;
constexpr unsigned KEYBOARD_PULSE_RESET = 0xfe;
constexpr uint16_t SYSTEM_CONTROL_A = 0x92;
constexpr unsigned SYSTEM_CONTROL_A_RESET = 1u << 0;

// By MachineEnd: the ledger's word and the exit status, which run.sh knows.
struct End {
    const char *word;
    int status;
};
constexpr End ends[] = {{"poweroff", 0}, {"reset", 3},     {"limit", 5},
                        {"text", 6},     {"timeout", 124}, {"emulator", 4}};

int serial_fd = -1;
int serial_file = -1;
// What COM1 has said in a server, and when: for each of its children.
struct Said {
    unsigned char byte;
    uint64_t tick;
};
std::vector<Said> early;
bool dlab;
bool loopback;
unsigned resets;
bool reset_asked;
volatile std::sig_atomic_t stop_asked;

void write_all(int fd, const void *data, size_t size)
{
    const char *at = static_cast<const char *>(data);

    while (fd >= 0 && size > 0) {
        ssize_t done = write(fd, at, size);
        if (done < 0)
            return;
        at += done;
        size -= static_cast<size_t>(done);
    }
}

void on_stop_signal(int)
{
    stop_asked = 1;
    // Both loops of Bochs, running and halted, look at this.
    bx_pc_system.kill_bochs_request = 1;
    for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++)
        BX_CPU(n)->async_event = 1;
}

void serial_out(const Said &said)
{
    if (fork_server_wanted()) {
        early.push_back(said);
        return;
    }
    write_all(serial_fd, &said.byte, 1);
    write_all(serial_file, &said.byte, 1);
    limits_serial(said.byte, said.tick);
}

}  // namespace

void machine_init()
{
    struct sigaction action = {};

    if (const char *fd = std::getenv("TB_SERIAL_FD"))
        serial_fd = std::atoi(fd);
    if (const char *path = std::getenv("TB_SERIAL_FILE")) {
        serial_file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (serial_file < 0) {
            std::fprintf(stderr, "testbed: %s: cannot write the serial log\n", path);
            _exit(ends[END_EMULATOR].status);
        }
    }
    std::vector<Said> before;
    early.swap(before);
    for (const Said &said : before)
        serial_out(said);
    action.sa_handler = on_stop_signal;
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
}

void machine_outp(uint16_t port, unsigned len, unsigned value)
{
    if (port > ATA_FIRST && port < ATA_FIRST + FORK_SERVER_DISK_PORTS)
        fork_server_disk_port(port - ATA_FIRST, value);
    switch (port) {
    case COM1_DATA:
        if (!dlab && !loopback && len == 1)
            serial_out({static_cast<unsigned char>(value), bx_pc_system.time_ticks()});
        break;
    case COM1_LCR:
        dlab = value & LCR_DLAB;
        break;
    case COM1_MCR:
        loopback = value & MCR_LOOPBACK;
        break;
    case RESET_CONTROL:
        reset_asked = value & RESET_CONTROL_CPU;
        break;
    case KEYBOARD_COMMAND:
        reset_asked = value == KEYBOARD_PULSE_RESET;
        break;
    case SYSTEM_CONTROL_A:
        reset_asked = value & SYSTEM_CONTROL_A_RESET;
        break;
    case PM1A_CONTROL:
        if ((value & PM1_SLP_EN) && len >= 2 &&
            ((value >> PM1_SLP_TYP_SHIFT) & PM1_SLP_TYP_MASK) == SLP_TYP_S5)
            machine_end(END_POWEROFF);
        break;
    }
}

bool machine_is_reset(bool hardware) { return hardware || reset_asked; }

// As port 0xcf9's shorter reset: after the longer one this firmware does not come up.
void machine_press_reset()
{
    reset_asked = true;
    bx_pc_system.Reset(BX_RESET_SOFTWARE);
}

void machine_reset()
{
    dlab = false;
    loopback = false;
    reset_asked = false;
    // The first one is power-on.
    if (resets++ == 0)
        limits_start();
    else if (resets > knobs().allow_resets + 1)
        machine_end(END_RESET);
}

// By the host's own addresses: nothing of the machine sees it.
static void end_parts()
{
    MachineMemory memory = {BX_MEM(0)->get_memory_len(), [](uint64_t address) -> const uint8_t * {
                                return BX_MEM(0)->getHostMemAddr(nullptr, address, BX_READ);
                            }};

    tell_parts(&Part::end, memory);
}

// Bochs' own way out leaves a status that says nothing.
[[noreturn]] void machine_end(MachineEnd how)
{
    if (fork_server_wanted()) {
        std::fprintf(stderr, "testbed: its machine came to its end (%s) before it could serve\n",
                     ends[how].word);
        fflush(nullptr);
        _exit(ends[END_EMULATOR].status);
    }
    ledger_write(ends[how].word);
    end_parts();
    fflush(nullptr);
    _exit(ends[how].status);
}

void machine_exit() { machine_end(stop_asked ? END_TIMEOUT : END_EMULATOR); }
