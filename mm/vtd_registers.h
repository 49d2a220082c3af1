/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers of a VT-d unit, entries of its tables and commands of its queue, by the names of the
 * VT-d specification ("Register Descriptions", "Translation Structure Formats", "Queued
 * Invalidation Interface"). Plain constants.
 */
#pragma once

#include "bits.h"

/* ---- registers: offsets in bytes, and their fields ---- */
#define VTD_CAP 0x08    /* 64 bits */
#define CAP_RWBF BIT(4) /* write buffers have to be flushed by command */
#define CAP_PLMR BIT(5) /* protected low and high memory regions exist */
#define CAP_PHMR BIT(6)
#define CAP_SAGAW_4_LEVELS BIT(10)
#define CAP_SAGAW BITS(10, 9) /* 4 and 3 levels */
/* The end of the addresses that devices can use, from MGAW */
#define CAP_REACH(cap) (2ULL << ((cap) >> 16 & 0x3f))
#define CAP_FRO(cap) (((cap) >> 24 & 0x3ff) * 16) /* offset of the fault recording registers */
#define CAP_SLLPS_2M BIT(34)
#define CAP_SLLPS_1G BIT(35)
#define CAP_NFR(cap) (((cap) >> 40 & 0xff) + 1) /* number of fault recording pairs */
#define CAP_DRAIN BITS(55, 54)                  /* DRD, DWD */
#define CAP_DRAIN_SHIFT 48                      /* shift to the same two bits in IOTLB_INVALIDATE */
#define VTD_ECAP 0x10                           /* 64 bits */
#define ECAP_C BIT(0)                           /* table walks snoop the processors' caches */
#define ECAP_QI BIT(1)                          /* queued invalidation */
#define ECAP_IRO(ecap) (((ecap) >> 8 & 0x3ff) * 16) /* offset of the IOTLB registers, a pair */
#define REGISTER_PAIR 16                            /* bytes */
#define VTD_GCMD 0x18
#define VTD_GSTS 0x1c
#define GLOBAL_TE BIT(31)   /* translation */
#define GLOBAL_SRTP BIT(30) /* take the root table pointer; one-shot, as are the next three */
#define GLOBAL_SFL BIT(29)
#define GLOBAL_WBF BIT(27) /* flush write buffers; the status bit is clear after the flush */
#define GLOBAL_SIRTP BIT(24)
#define GLOBAL_QIE BIT(26) /* queued invalidation */
#define GLOBAL_IRE BIT(25) /* interrupt remapping */
#define GLOBAL_ONE_SHOT (GLOBAL_SRTP | GLOBAL_SFL | GLOBAL_WBF | GLOBAL_SIRTP)
#define VTD_RTADDR 0x20         /* 64 bits */
#define RTADDR_TTM BITS(11, 10) /* 0: legacy mode */
#define VTD_FSTS 0x34
/* ITE, ICE, IQE: each stops the queue until 1 is written to its bit */
#define FSTS_QUEUE_ERRORS BITS(6, 4)
#define VTD_FECTL 0x38
#define FECTL_IM BIT(31) /* no interrupts for faults */
#define VTD_PMEN 0x64
#define PMEN_EPM BIT(31) /* protected memory regions are on */
#define PMEN_PRS BIT(0)
#define VTD_IQH 0x80 /* 64 bits */
#define VTD_IQT 0x88 /* 64 bits */
#define VTD_IQA 0x90 /* 64 bits: 128-bit commands, queue of one page */
#define IQ_POINTER BITS(18, 4)

/* ---- entries of root and context tables: two 64-bit words each ---- */
#define ENTRY_P BIT(0)
#define CONTEXT_AW_LEVELS_MIN 2 /* AW, bits 2:0 of the high word: levels minus this number */
#define CONTEXT_DOMAIN BIT(8)   /* domain 1 in DID, because 0 is reserved in caching mode */

/* ---- commands of the queue: two 64-bit words each ---- */
#define CONTEXT_INVALIDATE 1
#define IOTLB_INVALIDATE 2
#define INVALIDATE_GLOBAL BIT(4) /* granularity, in both commands above */
#define INVALIDATE_WAIT 5
#define WAIT_STATUS_WRITE BIT(5)
#define WAIT_STATUS_SHIFT 32
