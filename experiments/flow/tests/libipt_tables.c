/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libipt_tables.c: the loads of CR3 in a trace of Intel PT without branches, with their times, by
 * Intel's own decoder (libipt). Usage: libipt_tables TRACE EAX EBX RATIO PERIOD TRACE: has TSC, MTC
 * and CYC. EAX, EBX: of CPUID leaf 15H. RATIO: of the nominal frequency to the bus clock. PERIOD:
 * MTCFreq of IA32_RTIT_CTL. Prints a line `TSC CR3` for each PIP packet, in hexadecimal. SDM Vol.
 * 3, "Intel Processor Trace", "Paging Information Packet (PIP)". An exit status of 1: a line on
 * stderr.
 */
#include "tests/e2e/libipt_trace.h"

#include <inttypes.h>

int main(int argc, char *argv[])
{
    struct pt_event event;
    uint64_t ip;

    if (argc != 6)
        return 2;
    struct pt_config config = config_of(argv[1]);
    config.cpuid_0x15_eax = (uint32_t)atoi(argv[2]);
    config.cpuid_0x15_ebx = (uint32_t)atoi(argv[3]);
    config.nom_freq = (uint8_t)atoi(argv[4]);
    config.mtc_freq = (uint8_t)atoi(argv[5]);
    struct pt_query_decoder *decoder = pt_qry_alloc_decoder(&config);
    int status = decoder == NULL ? -pte_nomem : pt_qry_sync_forward(decoder, &ip);
    while (status >= 0) {
        status = pt_qry_event(decoder, &event, sizeof(event));
        if (status < 0)
            break;
        if (event.type == ptev_paging)
            printf("%" PRIx64 " %" PRIx64 "\n", event.tsc, event.variant.paging.cr3);
        else if (event.type == ptev_async_paging)
            printf("%" PRIx64 " %" PRIx64 "\n", event.tsc, event.variant.async_paging.cr3);
        else if (event.type == ptev_overflow)
            give_up("lost packets", -pte_overflow, event.tsc);
    }
    if (status != -pte_eos)
        give_up(argv[1], status, 0);
    return 0;
}
