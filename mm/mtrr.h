/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fields of the MTRRs, by the SDM's names. Plain constants.
 * SDM Vol. 3, "Memory Type Range Registers (MTRRs)".
 */
#pragma once

#include "msr.h"

/* IA32_MTRRCAP */
#define MTRRCAP_VCNT BITS(7, 0) /* number of variable ranges */
#define MTRRCAP_FIX BIT(8) /* fixed ranges are supported */

/* IA32_MTRR_DEF_TYPE */
#define MTRR_DEF_TYPE_TYPE BITS(7, 0)
#define MTRR_DEF_TYPE_FE BIT(10) /* fixed ranges are enabled */

/* IA32_MTRR_PHYSBASEn, IA32_MTRR_PHYSMASKn; address bits are MAXPHYADDR-1:12 */
#define MTRR_PHYSBASE_TYPE BITS(7, 0)
#define MTRR_PHYSMASK_V BIT(11) /* this pair is in use */
#define MTRR_ADDRESS_SHIFT 12

/* Fixed ranges: each register holds eight types of one byte, lowest range in the lowest byte. */
#define MTRR_FIX_TYPES 8
#define MTRR_FIX_TYPE_BITS 8
#define MTRR_FIX_16K_START 0x80000ULL
#define MTRR_FIX_4K_START 0xc0000ULL
#define MTRR_FIX_END 0x100000ULL
#define MTRR_FIX_64K 0x10000ULL
#define MTRR_FIX_16K 0x4000ULL
#define MTRR_FIX_4K 0x1000ULL
/* where each group of registers starts in mtrr_state.fixed */
#define MTRR_FIX_64K_FIRST 0
#define MTRR_FIX_16K_FIRST 1
#define MTRR_FIX_4K_FIRST 3
