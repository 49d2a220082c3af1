// SPDX-License-Identifier: BSD-2-Clause
//
// Three kinds of processes: the server, which only waits for connections; for each connection a
// watcher, which tells the client how its run ended, and ends the run when the client goes; and the
// run itself. Bochs has one thread, so that a fork copies all of it.
#include "bochs.h"
#include "cpu.h"
#include "pc_system.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_server.h"
#include "knobs.h"
#include "limits.h"
#include "machine.h"
#include "model.h"
#include "part.h"
#include "processor.h"
#include "pt_machine.h"
#include "vmx_caps.h"

namespace {

// run.sh gives these. The server lives until the other end of LIFE_FD is closed.
constexpr int SERIAL_FD = 3;
constexpr int LIFE_FD = 4;
constexpr int BACKLOG = 64;
constexpr size_t MESSAGE_MAX = 65536;
constexpr int STOP_MILLISECONDS = 10000;

bool done;
uint64_t forked_at;

// The server waits for the guest's question, and not at the disk.
bool at_init() { return std::getenv("TB_SERVER_AT") != nullptr; }

[[noreturn]] void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    std::fputs("testbed: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    va_end(arguments);
    std::fflush(stderr);
    _exit(EXIT_FAILURE);
}

// The registers of the disk's channel: the last two values of each, because a command with a 48-bit
// address takes both, the earlier one for the upper half.
struct Register {
    uint8_t now, before;
};
Register registers[FORK_SERVER_DISK_PORTS];
enum { COUNT = 2, LOW, MIDDLE, HIGH, DEVICE, COMMAND };
constexpr unsigned DEVICE_SECOND = 1u << 4;
constexpr unsigned DEVICE_LBA = 1u << 6;
constexpr unsigned DEVICE_LOW_BITS = 0xf;
constexpr uint64_t SECTOR = 512;

struct Sectors {
    uint64_t first, count;
};

// What is the run's own of the disk: TB_SERVER_OWN, "FIRST+COUNT" or "FIRST+COUNT+PEEK", where the
// first PEEK sectors may be read earlier; all of the disk without.
struct Own {
    Sectors all, late;
};

Own own_sectors()
{
    const char *text = std::getenv("TB_SERVER_OWN");
    unsigned long long first = 0, count = UINT64_MAX, peek = 0;

    if (text && std::sscanf(text, "%llu+%llu+%llu", &first, &count, &peek) < 2)
        fail("TB_SERVER_OWN: found '%s', wanted FIRST+COUNT", text);
    return {{first, count}, {first + peek, count - peek}};
}

bool overlap(const Sectors &a, const Sectors &b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

// What a command with this address, and a count that says this for none, reads.
Sectors addressed(bool wide)
{
    const Register &count = registers[COUNT], &low = registers[LOW], &middle = registers[MIDDLE],
                   &high = registers[HIGH];
    uint64_t number = count.now + (wide ? uint64_t(count.before) << 8 : 0);
    uint64_t upper = wide ? uint64_t(low.before) | uint64_t(middle.before) << 8 |
                                uint64_t(high.before) << 16
                          : registers[DEVICE].now & DEVICE_LOW_BITS;
    uint64_t lower = low.now | middle.now << 8 | high.now << 16;

    return {upper << 24 | lower, number ? number : wide ? 65536u : 256u};
}

// All commands that move data from the disk. ATA/ATAPI Command Set, "Command descriptions". One
// that gives cylinder, head and sector may read anything.
bool reads_own(unsigned command)
{
    bool wide = false;

    if (registers[DEVICE].now & DEVICE_SECOND)
        return false;
    switch (command) {
    case 0x24:  // READ SECTORS EXT
    case 0x25:  // READ DMA EXT
    case 0x29:  // READ MULTIPLE EXT
        wide = true;
        break;
    case 0x20:
    case 0x21:  // READ SECTORS
    case 0xc4:  // READ MULTIPLE
    case 0xc8:  // READ DMA
        break;
    default:
        return false;
    }
    return !(registers[DEVICE].now & DEVICE_LBA) || overlap(addressed(wide), own_sectors().late);
}

struct Job {
    std::string settings;  // lines NAME=VALUE for the environment
    int serial = -1;
};

bool receive(int connection, Job *job)
{
    static char text[MESSAGE_MAX];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part = {text, sizeof(text)};
    msghdr message = {};

    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t size = recvmsg(connection, &message, 0);
    cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (!header || header->cmsg_type != SCM_RIGHTS || (message.msg_flags & MSG_TRUNC))
        return false;
    job->settings.assign(text, static_cast<size_t>(size));
    std::memcpy(&job->serial, CMSG_DATA(header), sizeof(job->serial));
    return true;
}

// The watcher's life. Returns in the run's process alone.
void watch(int connection, Job *job)
{
    int alive[2], status = 0;
    pid_t watcher = getpid();

    std::signal(SIGCHLD, SIG_DFL);
    if (!receive(connection, job) || pipe(alive) != 0)
        _exit(EXIT_FAILURE);
    pid_t run = fork();
    if (run == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != watcher)
            _exit(EXIT_FAILURE);
        close(connection);
        close(alive[0]);
        return;
    }
    // The run alone holds the pipe's other end: it ends with the run.
    close(alive[1]);
    close(job->serial);
    pollfd events[2] = {{alive[0], POLLIN, 0}, {connection, POLLIN, 0}};
    while (poll(events, 2, -1) < 0 && errno == EINTR)
        ;
    if (!events[0].revents) {
        kill(run, SIGTERM);
        if (poll(events, 1, STOP_MILLISECONDS) == 0)
            kill(run, SIGKILL);
    }
    waitpid(run, &status, 0);
    std::string word = std::to_string(WIFEXITED(status) ? WEXITSTATUS(status)
                                                        : 128 + WTERMSIG(status));
    send(connection, word.data(), word.size(), MSG_NOSIGNAL);
    _exit(EXIT_SUCCESS);
}

int listen_at(const char *path)
{
    sockaddr_un address = {};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof(address.sun_path))
        fail("%s: too long for a socket's path", path);
    std::strcpy(address.sun_path, path);
    if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)) ||
        listen(listener, BACKLOG) != 0)
        fail("%s: cannot listen: %s", path, std::strerror(errno));
    return listener;
}

// Returns in the processes of runs alone, with what the run is to be.
Job serve(const char *path)
{
    int listener = listen_at(path);
    const std::string ready = "ready\n";

    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGCHLD, SIG_IGN);
    std::fflush(nullptr);
    if (write(SERIAL_FD, ready.data(), ready.size()) < 0)
        fail("nobody waits for this server");
    for (;;) {
        pollfd events[2] = {{LIFE_FD, POLLIN, 0}, {listener, POLLIN, 0}};
        if (poll(events, 2, -1) < 0)
            continue;
        if (events[0].revents)
            _exit(EXIT_SUCCESS);
        int connection = accept(listener, nullptr, nullptr);
        if (connection < 0)
            continue;
        pid_t watcher = fork();
        if (watcher == 0) {
            Job job;
            close(listener);
            close(LIFE_FD);
            watch(connection, &job);
            return job;
        }
        close(connection);
    }
}

// What this process has open as the file `old` is the file `path` from now on.
void replace_file(const char *old, const char *path, int flags)
{
    bool found = false;
    int fd = path ? open(path, flags, 0666) : -1;
    DIR *folder = opendir("/proc/self/fd");

    if (fd < 0 || !old || !folder)
        fail("%s: cannot be opened: %s", path ? path : "no file", std::strerror(errno));
    while (dirent *entry = readdir(folder)) {
        char target[PATH_MAX];
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        if (size < 0)
            continue;
        target[size] = '\0';
        if (std::strcmp(target, old) != 0)
            continue;
        dup2(fd, std::atoi(entry->d_name));
        found = true;
    }
    closedir(folder);
    close(fd);
    if (!found)
        fail("%s: the server has no such file open", old);
}

// A hole of the server's disk is one of the run's: nothing was ever written there.
void copy_bytes(int from, int to, uint64_t at, uint64_t end)
{
    static char buffer[1 << 20];

    while (at < end) {
        off_t data = lseek(from, static_cast<off_t>(at), SEEK_DATA);
        at = data < 0 ? end : static_cast<uint64_t>(data);
        if (at >= end)
            return;
        uint64_t hole = static_cast<uint64_t>(lseek(from, data, SEEK_HOLE));
        ssize_t size = pread(from, buffer, std::min({sizeof(buffer), end - at, hole - at}),
                             static_cast<off_t>(at));
        if (size <= 0 ||
            pwrite(to, buffer, static_cast<size_t>(size), static_cast<off_t>(at)) != size)
            fail("the server's disk cannot be copied: %s", std::strerror(errno));
        at += static_cast<uint64_t>(size);
    }
}

bool same_bytes(const char *one, const char *other)
{
    std::ifstream a(one, std::ios::binary), b(other, std::ios::binary);
    static char left[1 << 20], right[1 << 20];

    while (a && b) {
        a.read(left, sizeof(left));
        b.read(right, sizeof(right));
        if (a.gcount() != b.gcount() ||
            std::memcmp(left, right, static_cast<size_t>(a.gcount())) != 0)
            return false;
    }
    return a.eof() && b.eof();
}

// Firmware, boot loader, kernel and init have read and written the server's: the run goes on with a
// copy. What it was before has to be what the run is given, if it is given any.
void take_used_disk(const char *old, const char *path)
{
    const char *unused = std::getenv("TB_SERVER_UNUSED");
    struct stat mine = {};

    if (access(path, F_OK) == 0 && !(unused && same_bytes(unused, path)))
        fail("%s: not the disk that the server has started from", path);
    int from = open(old, O_RDONLY), to = open(path, O_WRONLY | O_CREAT, 0666);
    if (from < 0 || to < 0 || fstat(from, &mine) != 0 || ftruncate(to, mine.st_size) != 0)
        fail("%s: cannot be a copy of the server's disk: %s", path, std::strerror(errno));
    copy_bytes(from, to, 0, static_cast<uint64_t>(mine.st_size));
    close(from);
    close(to);
}

// The run's disk gets all sectors that are not its own from the server's, as its machine left them.
void take_disk(const char *old, const char *path)
{
    struct stat mine = {}, given = {};

    if (!old || !path)
        fail("no disk");
    if (at_init())
        return take_used_disk(old, path);
    if (access(path, F_OK) != 0)
        fail("a run without --disk: only a server at init has one for it");
    if (stat(old, &mine) != 0 || stat(path, &given) != 0 || mine.st_size != given.st_size)
        fail("%s: the server's disk has another size", path);
    if (!std::getenv("TB_SERVER_OWN"))
        return;
    uint64_t size = static_cast<uint64_t>(mine.st_size);
    Sectors own = own_sectors().all;
    int from = open(old, O_RDONLY), to = open(path, O_WRONLY);
    if (from < 0 || to < 0)
        fail("%s: %s", from < 0 ? old : path, strerror(errno));
    copy_bytes(from, to, 0, std::min(size, own.first * SECTOR));
    copy_bytes(from, to, std::min(size, (own.first + own.count) * SECTOR), size);
    close(from);
    close(to);
}

void expect_parts_in_time()
{
    for (Part *part : parts()) {
        std::string why = part->late();
        if (!why.empty())
            fail("%s", why.c_str());
    }
}

void become(const Job &job)
{
    std::istringstream lines(job.settings);
    std::string line;

    // What the run is not given it does without: the server's own is none of its.
    for (const char *name : {"TB_KNOBS", "TB_LEDGER", "TB_SERIAL_FILE", "TB_UNTIL", "TB_WORDS"})
        unsetenv(name);
    while (std::getline(lines, line)) {
        size_t equals = line.find('=');
        if (equals != std::string::npos)
            setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
    }
    const char *folder = std::getenv("TB_FOLDER"), *out = std::getenv("TB_OUT");
    int said = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (said < 0 || dup2(said, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    dup2(job.serial, SERIAL_FD);
    if (!folder || chdir(folder) != 0)
        fail("%s: no such folder", folder ? folder : "no folder");
    const char *disk = std::getenv("TB_DISK"), *servers = std::getenv("TB_SERVER_DISK");
    take_disk(servers, disk);
    replace_file(servers, disk, O_RDWR);
    replace_file(std::getenv("TB_SERVER_LOG"), std::getenv("TB_LOG"), O_WRONLY | O_CREAT | O_TRUNC);
    forked_at = bx_pc_system.time_ticks();
    unsetenv("TB_SERVER");
    knobs_reread(at_init());
    parts_take_knobs();
    if (at_init())
        expect_parts_in_time();
    // At init the processors have been used, by the same knobs.
    for (unsigned n = 0; n < processor_count() && !at_init(); n++) {
        processor_take_knobs(processor(n));
        vmx_caps_apply(n);
        pt_take_knobs(processor(n));
        vmx_caps_reset(n);
        model_reset_extra(processor(n));
    }
    limits_start();
    machine_init();
}

}  // namespace

bool fork_server_wanted() { return std::getenv("TB_SERVER") != nullptr; }

void fork_server_disk_port(unsigned number, unsigned value)
{
    Register &changed = registers[number];

    if (number == COMMAND) {
        if (done || !reads_own(value) || !fork_server_wanted() || at_init())
            return;
        done = true;
        become(serve(std::getenv("TB_SERVER")));
        return;
    }
    changed = {static_cast<uint8_t>(value), changed.now};
}

void fork_server_check()
{
    // Its file begins with the kernel, and would be of all runs.
    const char *knob = knobs_with_kernel();

    if (fork_server_wanted() && at_init() && knob)
        fail("%s is not for a server at init", knob);
}

const char *fork_server_words()
{
    if (fork_server_wanted() && at_init())
        become(serve(std::getenv("TB_SERVER")));
    const char *words = std::getenv("TB_WORDS");
    return words ? words : "";
}

uint64_t fork_server_forked_at() { return forked_at; }
