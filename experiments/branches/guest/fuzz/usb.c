/* SPDX-License-Identifier: BSD-2-Clause
 * usb.c: a USB device in user mode behind Linux's virtual host controller, vhci-hcd. The kernel
 * gets one end of a socket pair, a thread answers at the other. The hub's thread takes the device
 * in and leaves it unauthorized. The case's own thread writes `authorized`, so the driver's probe
 * and disconnect run in the thread that is traced.
 *
 * An input has the number of the device's id, configuration descriptors, calls behind their length,
 * and replies. A reply begins with a byte: its length, and whether it is a stall. Lengths and types
 * that a fuzzer's descriptions of USB hold constant are constant here, too. Linux,
 * Documentation/usb/usbip_protocol.rst and authorization.rst; USB 2.0, chapter 9.
 */
#define _GNU_SOURCE /* O_CLOEXEC, SOCK_CLOEXEC */
#include "usb.h"

#include "drivers.h"

#include "payload.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/usb/ch9.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CONTROLLER "/sys/devices/platform/vhci_hcd.0/"
#define ROOT_HUB "/devices/platform/vhci_hcd.0/usb1/"
#define DEVICES "/sys/bus/usb/devices/"
#define PORTS 8u           /* used in turn: a port needs a moment after its last device */
#define CONNECT_SECONDS 5u /* the hub tries a bad device several times */
#define SILENCE_MS 100     /* after that an IN request without a reply ends with an error */
#define PATH_MAX_HERE 96
#define EVENT_MAX 2048
#define HELD_MAX 64u
#define DATA_MAX 4096u

#define CMD_SUBMIT 1u
#define CMD_UNLINK 2u
#define RET_SUBMIT 3u
#define RET_UNLINK 4u
#define DIRECTION_IN 1u
#define PACKETS_NONE UINT32_MAX /* instead of a number of isochronous packets */

#define REPLY_LENGTH 0x3fu
#define REPLY_STALL 0x80u

struct usb_tally usb_tally;

/* The header of both directions, big endian. */
struct header {
    uint32_t command, number, device, direction, endpoint;
    union {
        struct {
            uint32_t flags, length, frame, packets, interval;
            struct usb_ctrlrequest setup;
        } submit;
        struct {
            uint32_t status, length, frame, packets, errors;
        } answer;
        uint32_t unlinked;
    };
};
_Static_assert(sizeof(struct header) == 48, "usbip_protocol.rst has 48 bytes");

static struct device {
    struct usb_device_descriptor descriptor;
    uint8_t configuration[INPUT_MAX];
    size_t configuration_size;
    const uint8_t *replies, *at, *end;
    unsigned answers, credit;
    struct request {
        uint32_t number;
        size_t room;
    } held[HELD_MAX]; /* IN requests that wait */
    unsigned held_count;
    int socket;
} device;

static sem_t plugged, idle;

static bool receive(void *to, size_t bytes)
{
    return bytes == 0 || recv(device.socket, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool answer(uint32_t number, int status, const void *data, size_t bytes, size_t actual)
{
    struct header header = {.command = htobe32(RET_SUBMIT), .number = htobe32(number)};

    header.answer.status = htobe32((uint32_t)status);
    header.answer.length = htobe32((uint32_t)actual);
    return send(device.socket, &header, sizeof(header), MSG_NOSIGNAL) == sizeof(header) &&
           (bytes == 0 || send(device.socket, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

/* Takes the next reply. After the last one comes the first one again. */
static int next_reply(uint8_t *to, size_t room, size_t *size)
{
    uint8_t head;
    size_t whole;

    *size = 0;
    if (device.at == device.end)
        device.at = device.replies;
    if (device.at == device.end)
        return -EPIPE;
    head = *device.at++;
    whole = (size_t)(device.end - device.at);
    whole = (head & REPLY_LENGTH) < whole ? head & REPLY_LENGTH : whole;
    *size = whole < room ? whole : room;
    memcpy(to, device.at, *size);
    device.at += whole;
    if ((head & REPLY_STALL) == 0)
        return 0;
    *size = 0;
    return -EPIPE;
}

static int descriptor(uint16_t value, uint8_t *to, size_t room, size_t *size)
{
    static const uint8_t text[] = {4, USB_DT_STRING, 'p', 0},
                         languages[] = {4, USB_DT_STRING, 9, 4};
    const void *from;

    switch (value >> 8) {
    case USB_DT_DEVICE:
        from = &device.descriptor;
        *size = sizeof(device.descriptor);
        break;
    case USB_DT_CONFIG:
        from = device.configuration;
        *size = device.configuration_size;
        break;
    case USB_DT_STRING:
        from = (value & 0xff) != 0 ? text : languages;
        *size = sizeof(text);
        break;
    default:
        *size = 0;
        return -EPIPE;
    }
    *size = *size < room ? *size : room;
    memcpy(to, from, *size);
    return 0;
}

static bool answer_in(uint32_t number, size_t room)
{
    uint8_t data[DATA_MAX];
    size_t size;
    int status = next_reply(data, room < DATA_MAX ? room : DATA_MAX, &size);

    device.credit--;
    return answer(number, status, data, size, size);
}

/* An OUT request lets the device answer IN requests. Those that wait come first. */
static bool answer_waiting(void)
{
    unsigned done = 0;

    for (device.credit += device.answers; device.credit > 0 && done < device.held_count; done++)
        if (!answer_in(device.held[done].number, device.held[done].room))
            return false;
    device.held_count -= done;
    memmove(device.held, &device.held[done], device.held_count * sizeof(device.held[0]));
    return true;
}

static bool control(uint32_t number, const struct usb_ctrlrequest *setup, size_t room)
{
    uint8_t data[DATA_MAX];
    size_t size = 0;
    int status = 0;
    bool standard = (setup->bRequestType & USB_TYPE_MASK) == USB_TYPE_STANDARD;

    if ((setup->bRequestType & USB_DIR_IN) == 0)
        return answer(number, 0, NULL, 0, room) && (standard || answer_waiting());
    room = room < DATA_MAX ? room : DATA_MAX;
    if (!standard)
        status = next_reply(data, room, &size);
    else if (setup->bRequest == USB_REQ_GET_DESCRIPTOR)
        status = descriptor(le16toh(setup->wValue), data, room, &size);
    else
        memset(data, 0, size = room);
    return answer(number, status, data, size, size);
}

static bool submit(const struct header *header)
{
    uint8_t data[DATA_MAX];
    uint32_t number = be32toh(header->number);
    size_t length = be32toh(header->submit.length);
    uint32_t packets = be32toh(header->submit.packets);
    bool in = be32toh(header->direction) == DIRECTION_IN;

    if (packets != 0 && packets != PACKETS_NONE)
        return false; /* isochronous: unplug the device */
    for (size_t left = in ? 0 : length; left > 0;) {
        size_t piece = left < sizeof(data) ? left : sizeof(data);

        if (!receive(data, piece))
            return false;
        left -= piece;
    }
    if (header->endpoint == 0)
        return control(number, &header->submit.setup, length);
    if (!in)
        return answer(number, 0, NULL, 0, length) && answer_waiting();
    if (device.credit > 0)
        return answer_in(number, length);
    if (device.held_count == HELD_MAX)
        return false;
    device.held[device.held_count++] = (struct request){number, length};
    return true;
}

static bool unlink_request(const struct header *header)
{
    struct header back = {.command = htobe32(RET_UNLINK), .number = header->number};
    unsigned kept = 0;

    for (unsigned n = 0; n < device.held_count; n++) {
        if (device.held[n].number == be32toh(header->unlinked))
            back.answer.status = htobe32((uint32_t)-ECONNRESET);
        else
            device.held[kept++] = device.held[n];
    }
    device.held_count = kept;
    return send(device.socket, &back, sizeof(back), MSG_NOSIGNAL) == sizeof(back);
}

/* Handles one message of the kernel, or silence. False: the device is gone. */
static bool serve_one(void)
{
    struct pollfd wanted = {.fd = device.socket, .events = POLLIN};
    struct header header;

    if (poll(&wanted, 1, device.held_count > 0 ? SILENCE_MS : -1) == 0) {
        unsigned count = device.held_count;

        device.held_count = 0;
        for (unsigned n = 0; n < count; n++)
            if (!answer(device.held[n].number, -EPROTO, NULL, 0, 0))
                return false;
        return true;
    }
    if (!receive(&header, sizeof(header)))
        return false;
    switch (be32toh(header.command)) {
    case CMD_SUBMIT:
        return submit(&header);
    case CMD_UNLINK:
        return unlink_request(&header);
    }
    return false;
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        sem_wait(&plugged);
        while (serve_one())
            ;
        close(device.socket);
        sem_post(&idle);
    }
    return NULL;
}

/* Makes the device of an input. Returns where its calls and replies begin. */
static const uint8_t *make_device(const struct usb_kind *kind, const uint8_t *data, size_t size)
{
    struct usb_config_descriptor head = {0};
    const uint8_t *end = data + size;
    const uint16_t *id = kind->ids[size > 0 ? data[0] % USB_IDS : 0];
    size_t rest = size > 0 ? size - 1 : 0, total = sizeof(head);

    id = id[0] != 0 ? id : kind->ids[0];
    device.descriptor = (struct usb_device_descriptor){
        .bLength = USB_DT_DEVICE_SIZE,
        .bDescriptorType = USB_DT_DEVICE,
        .bcdUSB = htole16(0x0200),
        .bDeviceClass = kind->class[0],
        .bDeviceSubClass = kind->class[1],
        .bDeviceProtocol = kind->class[2],
        .bMaxPacketSize0 = 64,
        .idVendor = htole16(id[0]),
        .idProduct = htole16(id[1]),
        .bNumConfigurations = 1,
    };
    data += size > 0;
    if (rest >= USB_DT_CONFIG_SIZE) {
        memcpy(&head, data, USB_DT_CONFIG_SIZE);
        total = le16toh(head.wTotalLength);
    }
    total = total < rest ? total : rest;
    memset(device.configuration, 0, USB_DT_CONFIG_SIZE);
    memcpy(device.configuration, data, total);
    data += total;
    device.configuration_size = total > USB_DT_CONFIG_SIZE ? total : USB_DT_CONFIG_SIZE;
    memcpy(&head, device.configuration, USB_DT_CONFIG_SIZE);
    head.bLength = USB_DT_CONFIG_SIZE;
    head.bDescriptorType = USB_DT_CONFIG;
    head.wTotalLength = htole16((uint16_t)device.configuration_size);
    head.bConfigurationValue = 1;
    memcpy(device.configuration, &head, USB_DT_CONFIG_SIZE);
    /* The calls lie before the replies. */
    device.replies = data < end && data + 1 + *data < end ? data + 1 + *data : end;
    device.at = device.replies;
    device.end = end;
    device.answers = kind->answers;
    device.credit = device.held_count = 0;
    return data;
}

static bool write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

    if (file >= 0)
        close(file);
    return done;
}

/* Opens the kernel's messages about devices. */
static int open_events(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
    struct timeval limit = {.tv_sec = CONNECT_SECONDS};
    int events = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

    if (bind(events, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(events, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
        complain("the kernel's messages about devices: %s", strerror(errno));
    return events;
}

/* Waits for the kernel's message about the device, and counts interfaces that are bound. */
static bool wait_for(int events, const char *action, unsigned port)
{
    char text[EVENT_MAX], wanted[PATH_MAX_HERE], interface[PATH_MAX_HERE];
    ssize_t length;

    snprintf(wanted, sizeof(wanted), "%s@" ROOT_HUB "1-%u", action, port);
    snprintf(interface, sizeof(interface), "bind@" ROOT_HUB "1-%u/1-%u:", port, port);
    while ((length = recv(events, text, sizeof(text) - 1, 0)) > 0 || errno == ENOBUFS) {
        text[length > 0 ? length : 0] = '\0';
        if (strcmp(text, wanted) == 0)
            return true;
        if (strncmp(text, interface, strlen(interface)) == 0)
            usb_tally.bound++;
    }
    return false;
}

static void use_driver(const struct usb_kind *kind, const uint8_t *calls, const uint8_t *end)
{
    int file = kind->node != NULL ? open(kind->node, O_RDWR | O_NONBLOCK | O_CLOEXEC)
                                  : socket(kind->domain, kind->type | SOCK_CLOEXEC, kind->protocol);

    driver_calls += 2; /* and close() */
    if (file < 0)
        return;
    driver_use(file, kind->commands, USB_COMMANDS, calls, end);
    close(file);
}

bool usb_case(const struct usb_kind *kind, const uint8_t *data, size_t size)
{
    const uint8_t *calls = make_device(kind, data, size);
    unsigned port = usb_tally.cases++ % PORTS + 1;
    char text[PATH_MAX_HERE];
    int events = open_events(), pair[2];
    bool taken;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    device.socket = pair[1];
    sem_post(&plugged);
    driver_calls += 12; /* the pair and its end, the messages, two files */
    snprintf(text, sizeof(text), "%u %d %u %u", port - 1, pair[0], 1u << 16 | port, USB_SPEED_HIGH);
    taken = write_file(CONTROLLER "attach", text) && wait_for(events, "bind", port);
    if (taken) {
        snprintf(text, sizeof(text), DEVICES "1-%u/authorized", port);
        write_file(text, "1");
        use_driver(kind, calls + (calls < device.end), device.replies);
        write_file(text, "0");
        driver_calls += 6;
        usb_tally.taken++;
    }
    snprintf(text, sizeof(text), "%u", port - 1);
    write_file(CONTROLLER "detach", text);
    close(pair[0]);
    if (taken)
        wait_for(events, "remove", port);
    sem_wait(&idle);
    close(events);
    return true;
}

bool usb_begin(unsigned cases)
{
    pthread_t thread;

    usb_tally.cases = cases;
    return (sem_init(&plugged, 0, 0) == 0 && sem_init(&idle, 0, 0) == 0 &&
            pthread_create(&thread, NULL, serve, NULL) == 0) ||
           complain("the device's thread: %s", strerror(errno));
}

bool usb_open(bool hub)
{
    load_drivers();
    if (access(CONTROLLER "attach", W_OK) != 0 ||
        !write_file(DEVICES "usb1/authorized_default", hub ? "1" : "0"))
        return complain("no " CONTROLLER "attach, or its hub is not usb1; wanted a kernel with "
                        "vhci-hcd, and no other host controller");
    return true;
}
