/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Entries of the extended page tables, by the SDM's names. Plain constants.
 * SDM Vol. 3, "The Extended Page Table Mechanism (EPT)", tables "Format of an EPT ... Entry".
 */
#pragma once

#include "bits.h"

#define EPT_READ BIT(0)
#define EPT_WRITE BIT(1)
#define EPT_EXECUTE BIT(2)
#define EPT_RWX (EPT_READ | EPT_WRITE | EPT_EXECUTE) /* all clear: not present */
#define EPT_MEMORY_TYPE_SHIFT 3 /* in a leaf */
#define EPT_PAGE BIT(7) /* a leaf above the lowest level */
#define EPT_ADDRESS BITS(51, 12)

#define EPT_ADDRESS_BITS 48 /* what a walk of four levels translates */
