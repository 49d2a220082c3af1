/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The interface of mm/: pages, the hypervisor's own page tables, memory types, and the guest's EPT.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"
#include "vmx.h"

/* ---- pages ---- */

/* Hands the pool to the allocator, except its first page (the reset doorbell). */
void page_pool_init(struct range range);
/* Sets the function that page_alloc() calls if fewer than `count` pages are left. `end` must not
 * return. */
void page_pool_set_exhausted_hook(void (*end)(uint64_t count));
/* Returns `count` contiguous zeroed pages. Pages are never given back. */
void *page_alloc(uint64_t count);
uint64_t page_pool_free(void); /* pages left */

/* ---- the hypervisor's own page tables (SDM Vol. 3, "4-Level Paging and 5-Level Paging") ---- */

enum host_access { HOST_READ_ONLY, HOST_READ_WRITE, HOST_READ_EXECUTE, HOST_DEVICE };
/* Makes an empty table. Returns its root (the value for CR3). */
uint64_t host_paging_new(void);
/* Maps [base, base+size) to itself in 4 KiB pages, replacing earlier mappings. HOST_DEVICE is
 * uncached. Everything except HOST_READ_EXECUTE is execute-disable: W^X has no exception. False:
 * the range cannot be mapped to itself, because it is not canonical. */
bool host_paging_map(uint64_t root, struct range range, enum host_access access);
/* Unmaps a page, to make a guard page. */
void host_paging_unmap(uint64_t root, uint64_t address);

/* A page of the hypervisor's address space that can show any physical page, read-only. */
struct host_window {
    const void *page;  /* address of the window; mapped after host_window_map() */
    uint64_t physical; /* the page that the window shows; at first HOST_WINDOW_SHUT */
    uint64_t *entry;   /* the window's lowest-level entry in the page tables */
};
#define HOST_WINDOW_SHUT (~0ULL)
/* Takes a page of the pool for the window. */
struct host_window host_window_new(uint64_t root);
/* Makes the window show the page at `physical`, which must be below 2^MAXPHYADDR. The caller
 * flushes window->page (INVLPG). */
void host_window_map(struct host_window *window, uint64_t physical);

/* ---- memory types (SDM Vol. 3, "Memory Type Range Registers (MTRRs)") ---- */

enum memory_type { MEMORY_UC = 0, MEMORY_WC = 1, MEMORY_WT = 4, MEMORY_WP = 5, MEMORY_WB = 6 };
#define MTRR_VARIABLE_MAX 32
struct mtrr_state {
    uint64_t capability;   /* IA32_MTRRCAP */
    uint64_t default_type; /* IA32_MTRR_DEF_TYPE */
    uint64_t fixed[11];    /* 64K_00000, 16K_80000, 16K_A0000, 4K_C0000 .. 4K_F8000 */
    struct {
        uint64_t base; /* IA32_MTRR_PHYSBASEn */
        uint64_t mask; /* IA32_MTRR_PHYSMASKn */
    } variable[MTRR_VARIABLE_MAX];
    uint32_t variable_count;        /* number of pairs of variable[] in use */
    uint32_t physical_address_bits; /* MAXPHYADDR */
};
/* Reads this processor's MTRRs. Needs CPL 0. */
void mtrr_read(struct mtrr_state *m);
/* If [base, base+size) has one type throughout, stores it in *type and returns true. */
bool mtrr_lookup_type(const struct mtrr_state *m, uint64_t base, uint64_t size,
                      enum memory_type *type);

/* ---- EPT (SDM Vol. 3, "The Extended Page Table Mechanism (EPT)") ---- */

struct ept_request {
    const struct mtrr_state *mtrr; /* source of the memory types */
    const struct range *hidden;    /* not mapped at all: the hypervisor's own memory */
    uint32_t hidden_count;         /* entries of hidden[] */
    struct range readable;         /* whole pages of the hidden memory that are mapped read-only */
    uint32_t address_bits;         /* MAXPHYADDR */
    bool page_1g;                  /* IA32_VMX_EPT_VPID_CAP bit 17 */
    bool page_2m;                  /* IA32_VMX_EPT_VPID_CAP bit 16 */
    uint64_t top; /* end of the memory in the memory map; the EPT maps at least up to here */
};
/* Builds the identity map with the largest pages that types and hidden ranges allow. With 1 GiB
 * pages the map reaches all of MAXPHYADDR (at most 48 bits). Returns the physical address of the
 * PML4 table. */
uint64_t ept_build(const struct ept_request *q);
/* Returns the end of the addresses that ept_build() maps for this request. */
uint64_t ept_get_address_limit(const struct ept_request *q);
/* Looks up one address. Returns the leaf entry and stores the size of its page in bytes, or returns
 * 0 if the address is not mapped. For tests, for the report of a guest's stray access, and for
 * checks of an address that the guest chose. */
uint64_t ept_lookup(uint64_t root, uint64_t address, uint64_t *page_bytes);
/* Returns true if the leaf maps write-back memory that the guest may write. Root mode itself reads
 * and writes the guest's memory only if it is memory of this kind. */
static inline bool ept_is_memory(uint64_t leaf)
{
    return leaf & EPT_WRITE && (leaf >> EPT_MEMORY_TYPE_SHIFT & 7) == MEMORY_WB;
}
/* Returns the largest number of pages that ept_build() can need for this request. */
uint64_t ept_pages_needed(const struct ept_request *q);
