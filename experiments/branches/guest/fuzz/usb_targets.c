/* SPDX-License-Identifier: BSD-2-Clause
 * usb_targets.c: six of the seven drivers of the thesis's Table 4.8. Debian does not build the
 * seventh, go7007: snd-usb-audio is in its place. The ids are those of the modules' aliases. A
 * driver's first input is a device that its probe accepts: the descriptors and replies that it asks
 * for. USB 2.0, 9.6; "Universal Serial Bus Device Class Definition for Audio Devices" 1.0, chapter
 * 4; Linux, include/net/bluetooth/hci_sock.h; NXP, "PN533 User Manual", 7.1 (frames).
 */
#include "usb.h"

#include <linux/if.h>
#include <linux/sockios.h>
#include <linux/videodev2.h>
#include <sound/asound.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CONFIGURATION(interfaces, bytes)                                                           \
    9, 2, (bytes) & 0xff, (bytes) >> 8, interfaces, 1, 0, 0x80, 50
#define INTERFACE(number, setting, endpoints, class, subclass, protocol)                           \
    9, 4, number, setting, endpoints, class, subclass, protocol, 0
#define ENDPOINT(address, kind, size) 7, 5, address, kind, (size) & 0xff, (size) >> 8, 4
#define ISOCHRONOUS 5 /* asynchronous */
#define BULK 2
#define INTERRUPT 3
#define VENDOR 0xff
#define IOCTL(number) ((number) << 2) /* as driver_use() reads it */
#define WLAN0 'w', 'l', 'a', 'n', '0', 0

#define WIRELESS_COMMANDS                                                                          \
    {SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFINDEX,  SIOCGIFMTU,                                       \
     SIOCSIFMTU,   SIOCSIFHWADDR, SIOCGIFTXQLEN, SIOCSIFTXQLEN}

#define CALLS(bytes) bytes
#define REPLY(bytes) bytes /* at most 63; the driver's format in what follows */
#define ZEROS_8 0, 0, 0, 0, 0, 0, 0, 0

/* clang-format off */
static const uint8_t ar5523[] = {
    0, CONFIGURATION(1, 46), INTERFACE(0, 0, 4, VENDOR, 0, 0),
    ENDPOINT(0x81, BULK, 64), ENDPOINT(0x82, BULK, 64),
    ENDPOINT(0x01, BULK, 64), ENDPOINT(0x02, BULK, 64),
    CALLS(8), IOCTL(0), 6, WLAN0,
    /* its length, whose it is, 4 bytes: 1024 */
    REPLY(40), 0, 0, 0, 40, 0, 0, 0, 4, 1, 0, 0, 0, ZEROS_8, ZEROS_8, 0, 0, 0, 0,
        0, 0, 0, 4, 0, 0, 4, 0,
};

/* Command Complete of Reset, and of three commands that read. */
static const uint8_t btusb[] = {
    0, CONFIGURATION(1, 39), INTERFACE(0, 0, 3, 0xe0, 1, 1),
    ENDPOINT(0x81, INTERRUPT, 16), ENDPOINT(0x82, BULK, 64), ENDPOINT(0x02, BULK, 64),
    CALLS(6), IOCTL(1), 4, 0, 0, 0, 0,
    REPLY(6), 0x0e, 4, 1, 0x03, 0x0c, 0,
    REPLY(14), 0x0e, 12, 1, 0x03, 0x10, 0, ZEROS_8,
    REPLY(14), 0x0e, 12, 1, 0x01, 0x10, 0, 6, 0, 0, 6, 0, 0, 0, 0,
    REPLY(12), 0x0e, 10, 1, 0x09, 0x10, 0, 1, 2, 3, 4, 5, 6,
};

#define ACKNOWLEDGED REPLY(6), 0, 0, 0xff, 0, 0xff, 0
#define CONFIGURED ACKNOWLEDGED, REPLY(9), 0, 0, 0xff, 2, 0xfe, 0xd5, 0x33, 0xf8, 0
static const uint8_t pn533[] = {
    0, CONFIGURATION(1, 32), INTERFACE(0, 0, 2, VENDOR, 0, 0),
    ENDPOINT(0x84, BULK, 64), ENDPOINT(0x04, BULK, 64),
    CALLS(6), 2, 4, 0, 0, 0, 0,
    /* the firmware's version */
    ACKNOWLEDGED, REPLY(13), 0, 0, 0xff, 6, 0xfa, 0xd5, 0x03, 0x32, 1, 6, 7, 0xe8, 0,
    CONFIGURED, CONFIGURED, CONFIGURED,
};

static const uint8_t rsi[] = {
    0, CONFIGURATION(1, 46), INTERFACE(0, 0, 4, VENDOR, 0, 0),
    ENDPOINT(0x81, BULK, 512), ENDPOINT(0x82, BULK, 512),
    ENDPOINT(0x01, BULK, 512), ENDPOINT(0x02, BULK, 512),
    CALLS(8), IOCTL(0), 6, WLAN0,
    /* its firmware runs */
    REPLY(2), 1, 0,
};

static const uint8_t si470x[] = {
    0, CONFIGURATION(1, 32), INTERFACE(0, 0, 2, 3, 0, 0),
    ENDPOINT(0x81, INTERRUPT, 64), ENDPOINT(0x02, INTERRUPT, 64),
    CALLS(4), IOCTL(1), 0, IOCTL(3), 0,
    /* all registers; the versions of the device */
    REPLY(33), 17, 0x12, 0x42, 0x0a, 0x0f, ZEROS_8, 0, 0, 0, 0, 0, 0, 0x40, 0, ZEROS_8, 0, 0, 0, 0,
    REPLY(3), 20, 7, 1,
};

static const uint8_t usx2y[] = {
    0, CONFIGURATION(1, 62), INTERFACE(0, 0, 0, VENDOR, 0, 0), INTERFACE(0, 1, 5, VENDOR, 0, 0),
    ENDPOINT(0x84, INTERRUPT, 21), ENDPOINT(0x04, BULK, 64), ENDPOINT(0x02, BULK, 64),
    ENDPOINT(0x86, BULK, 64), ENDPOINT(0x06, BULK, 64),
    CALLS(8), IOCTL(0), 0, IOCTL(1), 4, 1, 0, 0, 0,
    REPLY(4), 0, 0, 0, 0,
};

/* A microphone with a volume. */
static const uint8_t audio[] = {
    0, CONFIGURATION(2, 109), INTERFACE(0, 0, 0, 1, 1, 0),
    9, 0x24, 1, 0, 1, 39, 0, 1, 1,
    12, 0x24, 2, 1, 1, 2, 0, 1, 0, 0, 0, 0,
    9, 0x24, 6, 3, 1, 1, 3, 0, 0,
    9, 0x24, 3, 2, 1, 1, 0, 3, 0,
    INTERFACE(1, 0, 0, 1, 2, 0), INTERFACE(1, 1, 1, 1, 2, 0),
    7, 0x24, 1, 2, 1, 1, 0,
    11, 0x24, 2, 1, 1, 2, 16, 1, 0x80, 0xbb, 0,
    9, 5, 0x81, ISOCHRONOUS, 96, 0, 1, 0, 0,
    7, 0x25, 1, 0, 0, 0, 0,
    CALLS(4), IOCTL(0), 0, IOCTL(1), 0,
    REPLY(2), 0, 0x10,
    REPLY(2), 0, 1,
};
/* clang-format on */

#define SEED(name) .seed = (name), .seed_size = sizeof(name)

const struct usb_kind usb_kinds[USB_TARGETS] = {
    {
        .module = "ar5523",
        SEED(ar5523),
        .ids = {{0x168c, 0x0001}, {0x0846, 0x4300}, {0x2001, 0x3a00}, {0x1385, 0x5f01}},
        .class = {VENDOR},
        .answers = 1,
        .domain = AF_INET,
        .type = SOCK_DGRAM,
        .commands = WIRELESS_COMMANDS,
    },
    {
        .module = "btusb",
        SEED(btusb),
        .ids = {{0x1d6b, 0x0001}, {0x0a12, 0x0001}},
        .class = {0xe0, 1, 1},
        .answers = 1,
        .domain = AF_BLUETOOTH,
        .type = SOCK_RAW,
        .protocol = 1, /* BTPROTO_HCI */
        .commands = {_IOR('H', 210, int), _IOR('H', 211, int), _IOW('H', 202, int),
                     _IOW('H', 204, int), _IOW('H', 203, int), _IOW('H', 221, int),
                     _IOW('H', 220, int), _IOW('H', 222, int)},
    },
    {
        .module = "pn533_usb",
        SEED(pn533),
        .ids = {{0x04cc, 0x2533}, {0x04e6, 0x5591}, {0x054c, 0x02e1}, {0x072f, 0x2200}},
        .answers = 2, /* an acknowledgement and a response */
        .domain = AF_NFC,
        .type = SOCK_SEQPACKET,
        .protocol = 0, /* NFC_SOCKPROTO_RAW */
        .commands = {SIOCINQ},
    },
    {
        .module = "rsi_usb",
        SEED(rsi),
        .ids = {{0x1618, 0x9113}, {0x1618, 0x9116}},
        .class = {VENDOR},
        .answers = 1,
        .domain = AF_INET,
        .type = SOCK_DGRAM,
        .commands = WIRELESS_COMMANDS,
    },
    {
        .module = "radio_si470x_usb",
        SEED(si470x),
        .ids = {{0x10c4, 0x818a}, {0x06e1, 0xa155}, {0x1b80, 0xd700}, {0x10c5, 0x819a}},
        .answers = 1,
        .node = "/dev/radio0",
        .commands = {VIDIOC_QUERYCAP, VIDIOC_G_TUNER, VIDIOC_S_TUNER, VIDIOC_G_FREQUENCY,
                     VIDIOC_S_FREQUENCY, VIDIOC_G_CTRL, VIDIOC_S_CTRL, VIDIOC_ENUM_FREQ_BANDS},
    },
    {
        .module = "snd_usb_usx2y",
        SEED(usx2y),
        .ids = {{0x1604, 0x8007}, {0x1604, 0x8001}, {0x1604, 0x8005}},
        .class = {VENDOR},
        .answers = 1,
        .node = "/dev/snd/hwC0D0",
        .commands = {SNDRV_HWDEP_IOCTL_DSP_STATUS, SNDRV_HWDEP_IOCTL_DSP_LOAD,
                     SNDRV_HWDEP_IOCTL_INFO, SNDRV_HWDEP_IOCTL_PVERSION},
    },
    {
        .module = "snd_usb_audio",
        SEED(audio),
        .ids = {{0x1d6b, 0x0101}, {0x046d, 0x0a44}},
        .answers = 1,
        .node = "/dev/snd/controlC0",
        .commands = {SNDRV_CTL_IOCTL_CARD_INFO, SNDRV_CTL_IOCTL_ELEM_LIST,
                     SNDRV_CTL_IOCTL_ELEM_INFO, SNDRV_CTL_IOCTL_ELEM_READ,
                     SNDRV_CTL_IOCTL_ELEM_WRITE, SNDRV_CTL_IOCTL_TLV_READ,
                     SNDRV_CTL_IOCTL_PCM_NEXT_DEVICE, SNDRV_CTL_IOCTL_PCM_INFO},
    },
};

#define PARSE(name, number)                                                                        \
    static bool parse_##name(const uint8_t *data, size_t size)                                     \
    {                                                                                              \
        usb_case(&usb_kinds[number], data, size);                                                  \
        return false; /* there is no planted bug to reach */                                       \
    }
PARSE(ar5523, 0)
PARSE(btusb, 1)
PARSE(pn533, 2)
PARSE(rsi, 3)
PARSE(si470x, 4)
PARSE(usx2y, 5)
PARSE(audio, 6)

#define TARGET(name) {#name, parse_##name, ""}
const struct target usb_targets[USB_TARGETS] = {TARGET(ar5523), TARGET(btusb),  TARGET(pn533),
                                                TARGET(rsi),    TARGET(si470x), TARGET(usx2y),
                                                TARGET(audio)};
