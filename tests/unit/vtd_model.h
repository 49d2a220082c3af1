/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Units of VT-d as the specification has them. The code under test sees their registers, not
 * hardware's: the functions here take the place of its instructions. VT-d specification, "Register
 * Descriptions", "Translation Process".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/acpi.h"
#include "mm/mmio.h"
#include "mm/vtd.h"
#include "x86.h"

#define POOL_PAGES 16384
#define UNITS 3
#define UNIT_BASE 0xfed90000ULL
#define UNIT(i) (UNIT_BASE + (i) * 0x10000ULL)

/* The specification's bits once more, apart from mm/vtd_registers.h. */
#define TE (1u << 31)
#define RTP (1u << 30)
#define WBF (1u << 27)
#define QIE (1u << 26)
#define IRE (1u << 25)
#define CAP_USUAL 0x00c0070c222f0406ULL /* a server's, 4 levels, all page sizes */
#define CAP_3_LEVELS 0x200ULL
#define CAP_4_LEVELS 0x400ULL
#define CAP_2M (1ULL << 34)
#define CAP_1G (1ULL << 35)
#define CAP_PROTECTED 0x60ULL
#define CAP_FLUSH 0x10ULL
#define ECAP_USUAL 0xf020dfULL

static struct unit {
    uint64_t cap, ecap;
    uint32_t status, fault_status, fault_control, protected;
    uint64_t root_register, root, head, tail, queue;
    bool contexts_stale, pages_stale, flushed;
    uint32_t stuck; /* status bits that do not change */
    bool queue_stuck, protected_stuck, absent;
    bool was_off; /* translation was off at some time */
} units[UNITS];
static bool caches_flushed;
static struct range pool;

/* ---- the model ---- */

static struct unit *unit_of(uint64_t address)
{
    for (unsigned i = 0; i < UNITS; i++)
        if (address - UNIT(i) < PAGE_SIZE)
            return &units[i];
    return NULL;
}

static void run_queue(struct unit *u)
{
    const uint64_t *commands = (const uint64_t *)(uintptr_t)u->queue;

    if (u->queue_stuck || u->fault_status & 0x70)
        return;
    for (; u->head != u->tail; u->head += 16) {
        uint64_t low = commands[u->head / 8], high = commands[u->head / 8 + 1];

        switch (low & 0xf) {
        case 1:
            assert_int_equal(low, 0x11); /* all contexts */
            assert_int_equal(high, 0);
            u->contexts_stale = false;
            break;
        case 2:
            assert_int_equal(low & ~0xc0ULL, 0x12);           /* all pages */
            assert_int_equal(low >> 6 & 3, u->cap >> 54 & 3); /* drained as far as it can */
            assert_int_equal(high, 0);
            assert_false(u->contexts_stale); /* a page could come back through an old context */
            u->pages_stale = false;
            break;
        case 5:
            assert_int_equal(low & 0x70, 0x20);
            assert_int_equal(high % 4, 0);
            *(uint32_t *)(uintptr_t)high = (uint32_t)(low >> 32);
            break;
        default:
            fail_msg("command 0x%lx", (unsigned long)low);
        }
    }
}

static void global_command(struct unit *u, uint32_t value)
{
    uint32_t persistent = TE | QIE | IRE, changed = (u->status ^ value) & persistent;
    uint32_t pulses = value & ~persistent;

    if (__builtin_popcount(changed) + __builtin_popcount(pulses) > 1)
        fail_msg("more than one command: 0x%x on 0x%x", value, u->status);
    if (pulses == WBF) {
        assert_true(u->cap & CAP_FLUSH);
        u->flushed = true;
        u->status = u->stuck & WBF ? u->status | WBF : u->status & ~WBF;
        return;
    }
    if (changed == QIE && value & QIE) {
        assert_int_equal(u->tail, 0);
        assert_int_equal(u->queue % PAGE_SIZE, 0);
        assert_int_not_equal(u->queue, 0);
        u->head = 0;
    }
    if (changed == QIE && !(value & QIE) && !(u->fault_status & 0x70) && !u->queue_stuck)
        assert_int_equal(u->head, u->tail);
    if (pulses == RTP) {
        if (u->status & TE)
            assert_int_equal((u->root_register ^ u->root) & 0xc00, 0);
        assert_true(u->ecap & 1 || caches_flushed);
        assert_true(!(u->cap & CAP_FLUSH) || u->flushed);
        u->contexts_stale = u->pages_stale = true;
        u->status &= ~(RTP & ~u->stuck);
        if (!(u->stuck & RTP))
            u->root = u->root_register;
    } else if (pulses != 0)
        fail_msg("command 0x%x", pulses);
    if (changed == TE && value & TE) {
        assert_false(u->contexts_stale || u->pages_stale);
        assert_int_not_equal(u->root, 0);
    }
    if (changed == TE && !(value & TE))
        u->was_off = true;
    changed |= pulses;
    u->status = (u->status & ~(changed & ~u->stuck)) | (value & changed & ~u->stuck);
}

uint32_t mmio_read_32(uint64_t address)
{
    struct unit *u = unit_of(address);

    if (u == NULL)
        return *(const volatile uint32_t *)(uintptr_t)address;
    switch (address % PAGE_SIZE) {
    case 0x1c:
        return u->status;
    case 0x64:
        return u->protected;
    case 0x80:
        if (u->head < u->tail && !(u->fault_status & 0x70))
            u->head += 16; /* firmware's commands take their time */
        return (uint32_t)u->head;
    case 0x88:
        return (uint32_t)u->tail;
    }
    fail_msg("32-bit read of 0x%lx", (unsigned long)address);
    return 0;
}

uint64_t mmio_read_64(uint64_t address)
{
    const struct unit *u = unit_of(address);

    assert_non_null(u);
    switch (address % PAGE_SIZE) {
    case 0x08:
        return u->absent ? UINT64_MAX : u->cap;
    case 0x10:
        return u->absent ? UINT64_MAX : u->ecap;
    case 0x20:
        return u->root_register;
    }
    fail_msg("64-bit read of 0x%lx", (unsigned long)address);
    return 0;
}

void mmio_write_32(uint64_t address, uint32_t value)
{
    struct unit *u = unit_of(address);

    assert_non_null(u);
    switch (address % PAGE_SIZE) {
    case 0x18:
        global_command(u, value);
        return;
    case 0x34:
        assert_int_equal(value & ~0x7du, 0); /* the rest is read-only or reserved */
        u->fault_status &= ~value;
        return;
    case 0x38:
        u->fault_control = value;
        return;
    case 0x64:
        assert_true(u->cap & CAP_PROTECTED); /* the register is there */
        assert_true(u->status & TE);         /* or there would be a gap */
        u->protected = (value & ~1u) | (u->protected_stuck || value & TE ? 1 : 0);
        return;
    }
    fail_msg("32-bit write of 0x%lx", (unsigned long)address);
}

void mmio_write_64(uint64_t address, uint64_t value)
{
    struct unit *u = unit_of(address);

    assert_non_null(u);
    switch (address % PAGE_SIZE) {
    case 0x20:
        u->root_register = value;
        return;
    case 0x88:
        u->tail = value;
        if (u->status & QIE)
            run_queue(u);
        return;
    case 0x90:
        assert_false(u->status & QIE);
        u->queue = value;
        return;
    }
    fail_msg("64-bit write of 0x%lx", (unsigned long)address);
}

void wbinvd(void) { caches_flushed = true; }

/* ---- what a device may do (VT-d specification, "Translation Process") ---- */

static const uint64_t *table(uint64_t entry)
{
    return (const uint64_t *)(uintptr_t)(entry & 0x000ffffffffff000ULL);
}

/* True: read and write of this address by this device go to the same address. */
static bool allowed(const struct unit *u, uint16_t requester, uint64_t address)
{
    const uint64_t *root = &table(u->root)[requester / 256 * 2];
    assert_int_equal(u->root & 0xc00, 0);
    assert_int_equal(root[0] & 0xfff0000000000ffeULL, 0);
    assert_int_equal(root[1], 0);
    assert_int_equal(root[0] & 1, 1);
    const uint64_t *context = &table(root[0])[requester % 256 * 2];
    assert_int_equal(context[0] & 0xfff0000000000fffULL, 1); /* present, TT 0, faults reported */
    assert_int_equal(context[1] >> 8 & 0xffff, 1);
    assert_int_equal(context[1] & ~0xffff07ULL, 0);
    unsigned levels_said = (unsigned)(context[1] & 7) + 2;
    assert_true(u->cap >> (levels_said + 6) & 1); /* SAGAW */

    uint64_t entry = context[0];
    if (address >> (12 + 9 * levels_said) != 0 || address >> 48 != 0)
        return false;
    for (unsigned level = levels_said; level > 0; level--) {
        entry = table(entry)[address >> (12 + 9 * (level - 1)) & 511];
        if (!(entry & 3))
            return false;
        assert_int_equal(entry & 3, 3);
        assert_int_equal(entry & (1ULL << 11 | 1ULL << 62 | 1ULL << 8), 0);
        bool large = level > 1 && entry & 0x80;
        if (large) {
            assert_true(level == 2   ? (u->cap & CAP_2M) != 0
                        : level == 3 ? (u->cap & CAP_1G) != 0
                                     : false);
            assert_int_equal(entry & ((1ULL << (12 + 9 * (level - 1))) - 0x1000), 0);
        }
        if (large || level == 1) {
            uint64_t span = 1ULL << (12 + 9 * (level - 1));
            assert_int_equal(entry & 0x000ffffffffff000ULL, address / span * span);
            return true;
        }
    }
    return false;
}
