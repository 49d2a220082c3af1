/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: the emulator's self-test, an EFI application that never returns. It prints one line for
 * each check that fails, the number of checks, and turns the machine off. UEFI, "EFI Image Entry
 * Point".
 */
#include "selftest.h"

#include <efi.h>

static unsigned passed, failed;
static const char *subject = "", *subject_more = "";

void check_about(const char *what, const char *more)
{
    subject = what;
    subject_more = more;
}

void check_equal(const char *what, uint64_t found, uint64_t wanted)
{
    if (found == wanted) {
        passed++;
        return;
    }
    failed++;
    print("selftest: FAILED ");
    print(subject);
    print(subject_more);
    print(what);
    print(": found ");
    print_number(found);
    print(", wanted ");
    print_number(wanted);
    print("\n");
}

void check_that(const char *what, bool holds) { check_equal(what, holds, true); }

#define CPUID_FEATURES 7

static void finish(void)
{
    print("selftest: passed ");
    print_number(passed);
    print(" failed ");
    print_number(failed);
    print("\n");
    power_off();
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *table);

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *table)
{
    (void)image;
    (void)table;
    machine_init();
    if (cpuid(CPUID_FEATURES, 0).b & BIT(25)) {
        test_pt();
        vmx_begin();
        test_pt_guest();
        finish();
    }
    test_apic();
    test_timer();
    test_debug();
    test_smap();
    test_files();
    check_about("", "");
    if ((cpuid(CPUID_PERFMON, 0).a & 0xff) == 4) {
        test_pmu();
        test_events();
        test_lbr();
        test_step();
        test_vmx();
    } else {
        test_shape();
        test_step();
    }
    finish();
    return EFI_SUCCESS;
}
