/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libipt_tables.c: the loads of CR3 in a trace of Intel PT without branches, with their times, by Intel's own
 * decoder (libipt).
 * Usage: libipt_tables TRACE EAX EBX RATIO PERIOD
 * TRACE: the packets alone, with TSC, MTC and CYC. EAX, EBX: of CPUID leaf 15H. RATIO: of the nominal
 * frequency to the bus clock. PERIOD: MTCFreq of IA32_RTIT_CTL. Prints a line `TSC CR3` for each PIP packet,
 * in hexadecimal. SDM Vol. 3, "Intel Processor Trace", "Paging Information Packet (PIP)". An exit
 * status of 1: a line on stderr.
 */
#include <inttypes.h>
#include <intel-pt.h>
#include <stdio.h>
#include <stdlib.h>

static int give_up(const char *what, int error)
{
    fprintf(stderr, "libipt_tables: %s: %s\n", what, pt_errstr(pt_errcode(error)));
    return 1;
}

int main(int argc, char *argv[])
{
    struct pt_config config;
    struct pt_event event;
    uint64_t ip;
    long size;

    FILE *file = argc == 6 ? fopen(argv[1], "re") : NULL;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) <= 0)
        return give_up("TRACE", -pte_bad_file);
    pt_config_init(&config);
    config.begin = malloc((size_t)size);
    config.end = config.begin + size;
    rewind(file);
    if (config.begin == NULL || fread(config.begin, (size_t)size, 1, file) != 1)
        return give_up("TRACE", -pte_bad_file);
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
            return give_up("lost packets", -pte_overflow);
    }
    fclose(file);
    return status == -pte_eos ? 0 : give_up("TRACE", status);
}
