/* SPDX-License-Identifier: BSD-2-Clause
 * drivers.c: seven drivers of Linux's own that need no device, each by its file: an input is up to
 * CALLS_MAX system calls. What would change the machine for the inputs to come is left out: new
 * loop devices and mappings, the console's way, line disciplines. Linux,
 * Documentation/userspace-api/ioctl/ioctl-number.rst.
 */
#include "drivers.h"

#include "payload.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fuse.h>
#include <linux/if_tun.h>
#include <linux/loop.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALLS_MAX 4u
#define BUFFER 512u
#define COMMANDS_MAX 10u

struct device {
    const char *path;
    unsigned major, minor; /* of a file that is made where the kernel makes none; 0: it does */
    unsigned long commands[COMMANDS_MAX];
};

enum { PTMX, TUN, LOOP, FUSE, CUSE, UHID, DM };

static const struct device devices[DRIVERS] = {
    [PTMX] = {"/dev/ptmx",
              5,
              2,
              {TIOCGPTN, TIOCSPTLCK, TIOCGWINSZ, TIOCSWINSZ, TCGETS, TCSETS, TIOCPKT, TIOCINQ,
               TIOCMGET, TIOCGEXCL}},
    [TUN] = {"/dev/net/tun",
             10,
             200,
             {TUNSETIFF, TUNGETIFF, TUNGETFEATURES, TUNSETOFFLOAD, TUNSETVNETHDRSZ, TUNGETVNETHDRSZ,
              TUNSETSNDBUF, TUNSETQUEUE, TUNSETLINK, TUNSETTXFILTER}},
    [LOOP] = {"/dev/loop0",
              7,
              0,
              {LOOP_SET_FD, LOOP_CLR_FD, LOOP_SET_STATUS64, LOOP_GET_STATUS64, LOOP_SET_CAPACITY,
               LOOP_SET_DIRECT_IO, LOOP_SET_BLOCK_SIZE, LOOP_CONFIGURE, LOOP_CHANGE_FD,
               LOOP_GET_STATUS}},
    [FUSE] = {"/dev/fuse", 10, 229, {FUSE_DEV_IOC_CLONE}},
    [CUSE] = {"/dev/cuse", 10, 203, {FUSE_DEV_IOC_CLONE}},
    [UHID] = {"/dev/uhid", 10, 239, {0}},
    [DM] = {"/dev/mapper/control",
            10,
            236,
            {DM_VERSION, DM_LIST_DEVICES, DM_DEV_STATUS, DM_DEV_WAIT, DM_TABLE_STATUS,
             DM_TABLE_DEPS, DM_LIST_VERSIONS, DM_TARGET_MSG, DM_DEV_RENAME, DM_DEV_SET_GEOMETRY}},
};

uint64_t driver_calls;

static const uint8_t *call(int file, const unsigned long *commands, unsigned commands_count,
                           const uint8_t *at, const uint8_t *end)
{
    uint8_t buffer[BUFFER] = {0};
    uint8_t way = *at++;
    size_t rest = (size_t)(end - at);
    size_t count = rest > 0 ? *at % (rest + 1) : 0;

    memcpy(buffer, at, count);
    driver_calls++;
    switch (way % 4) {
    case 0:
        (void)ioctl(file, commands[(way >> 2) % commands_count], buffer);
        break;
    case 1:
        (void)ioctl(file, commands[(way >> 2) % commands_count], (unsigned long)buffer[0]);
        break;
    case 2:
        (void)!write(file, buffer, count);
        break;
    default:
        (void)!read(file, buffer, count);
        break;
    }
    return at + count;
}

void driver_use(int file, const unsigned long *commands, unsigned commands_count,
                const uint8_t *data, const uint8_t *end)
{
    for (unsigned n = 0; n < CALLS_MAX && data < end; n++)
        data = call(file, commands, commands_count, data, end);
}

static bool calls(const struct device *device, const uint8_t *data, size_t size)
{
    int file = open(device->path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    driver_calls += 2; /* with close() */
    if (file >= 0) {
        driver_use(file, device->commands, COMMANDS_MAX, data, data + size);
        close(file);
    }
    return false; /* there is no planted bug to reach */
}

#define DRIVER(name, number)                                                                       \
    static bool name(const uint8_t *data, size_t size)                                             \
    {                                                                                              \
        return calls(&devices[number], data, size);                                                \
    }
DRIVER(ptmx, PTMX)
DRIVER(tun, TUN)
DRIVER(loop, LOOP)
DRIVER(fuse, FUSE)
DRIVER(cuse, CUSE)
DRIVER(uhid, UHID)
DRIVER(dm, DM)

#define SEED                                                                                       \
    "\x02"                                                                                         \
    "0123456789abcdef" /* a write, and then what its bytes say */
const struct target drivers[DRIVERS] = {
    {"ptmx", ptmx, SEED}, {"tun", tun, SEED},   {"loop", loop, SEED}, {"fuse", fuse, SEED},
    {"cuse", cuse, SEED}, {"uhid", uhid, SEED}, {"dm", dm, SEED},
};

bool drivers_open(void)
{
    load_drivers();
    (void)mkdir("/dev/net", 0755);
    (void)mkdir("/dev/mapper", 0755);
    (void)mkdir("/dev/pts", 0755);
    (void)mount("devpts", "/dev/pts", "devpts", 0, "");
    for (unsigned n = 0; n < DRIVERS; n++) {
        int file;

        if (devices[n].major != 0 && access(devices[n].path, F_OK) != 0) {
            (void)mknod(devices[n].path, (n == LOOP ? S_IFBLK : S_IFCHR) | 0600,
                        makedev(devices[n].major, devices[n].minor));
        }
        file = open(devices[n].path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file < 0) {
            return complain("%s: cannot be opened; wanted a kernel with its driver",
                            devices[n].path);
        }
        close(file);
    }
    return true;
}
