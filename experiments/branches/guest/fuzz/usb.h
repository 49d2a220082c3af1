/* SPDX-License-Identifier: BSD-2-Clause
 * usb.h: drivers of USB devices as targets: an input is a device, and system calls to what its
 * driver makes of it. None has a planted bug.
 */
#pragma once

#define INPUT_MAX 256u /* it has descriptors */
#include "targets.h"

#include <stddef.h>
#include <stdint.h>

#define USB_TARGETS 7
#define USB_IDS 4u
#define USB_COMMANDS 8u

/* What a device and its driver are like. */
struct usb_kind {
    const char *module; /* the driver's, as /proc/modules has it */
    uint16_t ids[USB_IDS][2];
    uint8_t class[3]; /* of the device: class, subclass, protocol */
    uint8_t answers;  /* IN requests that an OUT request lets the device answer */
    const char *node; /* a file of the driver's; NULL: the socket below */
    int domain, type, protocol;
    unsigned long commands[USB_COMMANDS];
    const uint8_t *seed; /* the first input */
    size_t seed_size;
};

extern const struct usb_kind usb_kinds[USB_TARGETS];
extern const struct target usb_targets[USB_TARGETS]; /* their seeds are empty */

/* Loads the drivers. `hub`: devices are authorized at once, and probed by the hub's thread. False:
 * one line says why. */
bool usb_open(bool hub);
/* What each process needs before its first case: the device's thread. `cases`: how many there were.
 */
bool usb_begin(unsigned cases);
/* One case: plugs the input's device in, lets the driver probe it, makes the system calls, and
 * unplugs the device. All but the device itself runs in the caller's thread. */
bool usb_case(const struct usb_kind *kind, const uint8_t *data, size_t size);

struct usb_tally {
    unsigned cases;
    unsigned taken; /* devices that the hub took in */
    unsigned bound; /* interfaces that a driver's probe accepted */
};
extern struct usb_tally usb_tally;
