/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the launcher's parts that need no KVM: which KVM it refuses, where it puts a
 * kernel and its initrd, the ACPI tables, and its COM1.
 */
#define SETUP setup
#define TEARDOWN teardown
#include "unit.h"

#include <errno.h>

#include "../../programs/kvm/acpi.h"
#include "../../programs/kvm/host.h"
#include "../../programs/kvm/image.h"
#include "../../programs/kvm/uart.h"
#include "kernel_file.h"
#include "lib/acpi.h"
#include "lib/refusal.h"

/* ---- host.c ---- */

static int setup(void **state);
static int teardown(void **state);

TEST(test_cpuinfo)
{
    static const char intel[] = "processor\t: 0\nflags\t\t: fpu vme vmx smx\nbugs\t\t: svm\n\n";
    static const char other[] = "processor\t: 0\nflags\t\t: fpu vmxe svm\nvmx flags\t: vnmi ept\n";

    assert_true(cpuinfo_has(intel, "vmx"));
    assert_true(cpuinfo_has(intel, "fpu"));
    assert_true(cpuinfo_has(intel, "smx"));
    assert_false(cpuinfo_has(intel, "svm"));
    assert_false(cpuinfo_has(intel, "vm"));
    assert_true(cpuinfo_has(other, "svm"));
    assert_false(cpuinfo_has(other, "vmx"));
    assert_false(cpuinfo_has("", "vmx"));
    assert_false(cpuinfo_has("flags", "vmx"));
    assert_false(cpuinfo_has("flags\t\t:", "vmx"));
    assert_true(cpuinfo_has("flags\t\t: vmx", "vmx"));
}

static void expect_host(struct kvm_host host, const char *said)
{
    struct refusal r = {0};
    bool good = kvm_host_check(&host, &r);

    if (said == NULL) {
        assert_true(good);
        return;
    }
    assert_false(good);
    assert_contains(r.line, said);
    assert_contains(r.line, "found");
    assert_contains(r.line, "wanted");
    assert_non_null(strchr(r.line, ';'));
    assert_null(strchr(r.line, '\n'));
}

TEST(test_host)
{
    const struct kvm_host good = {.vmx = true, .kvm_intel = true};
    struct kvm_host h;

    expect_host(good, NULL);
    expect_host((struct kvm_host){.kvm_pvm = true}, "kvm_pvm");
    expect_host((struct kvm_host){.kvm_pvm = true, .svm = true}, "kvm_pvm");
    expect_host((struct kvm_host){.svm = true}, "SVM");
    expect_host((struct kvm_host){0}, "no flag vmx");
    /* The flag is what counts: kvm_intel may be there, loaded on another processor. */
    h = good;
    h.vmx = false;
    expect_host(h, "no flag vmx");
    h = good;
    h.open_error = ENOENT;
    expect_host(h, "modprobe kvm_intel");
    h.open_error = EACCES;
    expect_host(h, "Permission denied");
    h = good;
    h.kvm_intel = false;
    expect_host(h, "without the module kvm_intel");
    h.kvm_pvm = true;
    expect_host(h, "kvm_pvm");
}

/* ---- image.c ---- */

#define SETUP_SIZE (4 * 512)
#define KERNEL_SIZE 8192
#define FILE_SIZE (SETUP_SIZE + KERNEL_SIZE)
#define MEMORY (32u << 20)
#define PREFERRED 0x1000000u

static uint8_t *file, *memory;
static struct image_entry entry;
static struct refusal r;

static int setup(void **state)
{
    struct setup_header h = kernel_header(3, KERNEL_SIZE);

    h.cmdline_size = 20;
    h.init_size = 0x100000;
    (void)state;
    file = calloc(1, FILE_SIZE);
    memory = calloc(1, MEMORY);
    if (file == NULL || memory == NULL)
        return 1;
    memcpy(file + HEADER_OFFSET, &h, sizeof(h));
    for (unsigned i = 0; i < KERNEL_SIZE; i++)
        file[SETUP_SIZE + i] = (uint8_t)(i * 7 + 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(file);
    free(memory);
    return 0;
}

static struct setup_header *header(void) { return (void *)(file + HEADER_OFFSET); }

static bool place(uint64_t size, const char *line)
{
    const struct image_file kernel = {file, FILE_SIZE, "k"}, none = {0};

    return image_place(memory, size, &kernel, &none, line, &entry, &r);
}

TEST(test_placed)
{
    assert_true(place(MEMORY, "tests=cpuid"));
    assert_int_equal(entry.eip, PREFERRED);
    assert_memory_equal(memory + PREFERRED, file + SETUP_SIZE, KERNEL_SIZE);
    assert_int_equal(memory[PREFERRED + KERNEL_SIZE], 0);

    const struct boot_params *bp = (const void *)(memory + entry.esi);
    assert_int_equal(bp->hdr.header, 0x53726448);
    assert_int_equal(bp->hdr.type_of_loader, 0xff);
    assert_int_equal(bp->hdr.code32_start, PREFERRED);
    assert_string_equal((const char *)memory + bp->hdr.cmd_line_ptr, "tests=cpuid");
    assert_int_equal(bp->e820_entries, 2);
    assert_int_equal(bp->e820_table[0].addr, 0);
    assert_true(bp->e820_table[0].size <= 0xa0000);
    assert_int_equal(bp->e820_table[1].addr, 0x100000);
    assert_int_equal(bp->e820_table[1].addr + bp->e820_table[1].size, MEMORY);
    assert_int_equal(bp->e820_table[1].type, 1);
    /* Selectors 0x10 and 0x18, as the boot protocol has them: flat code and data. */
    const uint64_t *gdt = (const void *)(memory + entry.gdt_base);
    assert_int_equal(entry.gdt_limit, 4 * 8 - 1);
    assert_int_equal(gdt[2], 0x00cf9b000000ffff);
    assert_int_equal(gdt[3], 0x00cf93000000ffff);
}

TEST(test_aligned)
{
    header()->pref_address = 0x1000;
    header()->kernel_alignment = 0x400000;
    assert_true(place(MEMORY, ""));
    assert_int_equal(entry.eip, 0x400000);
}

TEST(test_initrd)
{
    static const char text[] = "an initrd";
    const struct image_file kernel = {file, FILE_SIZE, "k"}, initrd = {text, sizeof(text), "i"};

    header()->initrd_addr_max = 0x7fffffff;
    assert_true(image_place(memory, MEMORY, &kernel, &initrd, "", &entry, &r));
    const struct boot_params *bp = (const void *)(memory + entry.esi);
    assert_int_equal(bp->hdr.ramdisk_image, MEMORY - 4096);
    assert_int_equal(bp->hdr.ramdisk_size, sizeof(text));
    assert_memory_equal(memory + MEMORY - 4096, text, sizeof(text));
    /* Never above the address that the kernel names, nor on the kernel. */
    header()->initrd_addr_max = PREFERRED + 0x180fff;
    assert_true(image_place(memory, MEMORY, &kernel, &initrd, "", &entry, &r));
    assert_int_equal(bp->hdr.ramdisk_image, PREFERRED + 0x180000);
    header()->initrd_addr_max = PREFERRED + 0x100ffe;
    assert_false(image_place(memory, MEMORY, &kernel, &initrd, "", &entry, &r));
    assert_contains(r.line, "wanted at least 18");
    /* Without one, nothing is said of it. */
    assert_true(place(MEMORY, ""));
    assert_int_equal(bp->hdr.ramdisk_size, 0);
}

static void expect_refused(bool done, const char *said)
{
    assert_false(done);
    assert_contains(r.line, said);
    assert_contains(r.line, "kernel k: found");
    assert_contains(r.line, "wanted");
}

TEST(test_refused)
{
    expect_refused(place(PREFERRED + 0xfffff, ""), "wanted at least 17");
    assert_true(place(PREFERRED + 0x100000, ""));
    expect_refused(place(MEMORY, "a line of more than twenty"), "found a command line of 26");
    assert_true(place(MEMORY, "twenty characters..."));
    header()->cmdline_size = UINT32_MAX;
    assert_true(place(MEMORY, "a line of more than twenty"));
    header()->header = 0;
    expect_refused(place(MEMORY, ""), "bzImage");
}

/* ---- acpi.c ---- */

static uint64_t number(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

/* From the pointer on, as an operating system goes. */
static void expect_tables(unsigned cpus)
{
    const uint8_t *rsdp = memory + ACPI_ADDRESS, *xsdt, *madt;
    unsigned seen = 0, local_apics = 0;

    memset(memory + ACPI_ADDRESS, 0, 0x10000);
    acpi_place(memory, cpus);
    assert_memory_equal(rsdp, "RSD PTR ", 8);
    assert_int_equal(rsdp[15], 2);
    assert_int_equal(acpi_checksum(rsdp, 20), 0);
    assert_int_equal(acpi_checksum(rsdp, number(rsdp + 20, 4)), 0);
    xsdt = memory + number(rsdp + 24, 8);
    assert_memory_equal(xsdt, "XSDT", 4);
    assert_int_equal(number(xsdt + 4, 4), 36 + 8);
    assert_int_equal(acpi_checksum(xsdt, 36 + 8), 0);
    madt = memory + number(xsdt + 36, 8);
    assert_memory_equal(madt, "APIC", 4);
    uint64_t length = number(madt + 4, 4);
    assert_int_equal(acpi_checksum(madt, length), 0);
    assert_int_equal(number(madt + 36, 4), 0xfee00000);
    uint64_t at = 44;
    while (at < length) {
        const uint8_t *structure = madt + at;
        if (structure[0] == 0) {
            assert_int_equal(structure[1], 8);
            assert_int_equal(structure[2], local_apics);
            assert_int_equal(structure[3], local_apics++);
            assert_int_equal(number(structure + 4, 4), 1);
        } else if (structure[0] == 1) {
            assert_int_equal(structure[1], 12);
            assert_true(structure[2] >= cpus);
            assert_int_equal(number(structure + 4, 4), 0xfec00000);
        } else {
            assert_int_equal(structure[0], 4);
            assert_int_equal(structure[1], 6);
            assert_int_equal(structure[5], 1);
        }
        seen |= 1u << structure[0];
        at += structure[1];
    }
    assert_int_equal(at, length);
    assert_int_equal(seen, 0x13);
    assert_int_equal(local_apics, cpus);
}

TEST(test_acpi)
{
    expect_tables(1);
    expect_tables(2);
    expect_tables(ACPI_CPUS_MAX);
}

/* ---- uart.c ---- */

TEST(test_uart)
{
    struct uart u = {0};

    assert_true(uart_write(&u, 0, 'x'));
    assert_int_equal(uart_read(&u, 5) & 0x60, 0x60);
    assert_int_equal(uart_read(&u, 2), 1);
    assert_false(uart_write(&u, 7, 0x5a));
    assert_int_equal(uart_read(&u, 7), 0x5a);
    assert_false(uart_write(&u, 1, 0x0f));
    /* With DLAB the first two registers are the divisor, and nothing is sent. */
    assert_false(uart_write(&u, 3, 0x83));
    assert_false(uart_write(&u, 0, 1));
    assert_false(uart_write(&u, 1, 2));
    assert_int_equal(uart_read(&u, 0), 1);
    assert_int_equal(uart_read(&u, 1), 2);
    assert_false(uart_write(&u, 3, 3));
    assert_int_equal(uart_read(&u, 3), 3);
    assert_int_equal(uart_read(&u, 0), 0);
    assert_int_equal(uart_read(&u, 1), 0x0f);
    /* In the loop nothing leaves. */
    assert_false(uart_write(&u, 4, 0x10));
    assert_false(uart_write(&u, 0, 'x'));
    assert_false(uart_write(&u, 4, 3));
    assert_true(uart_write(&u, 0, 'x'));
}

/* What Linux's driver 8250 asks it in autoconfig() and serial8250_do_startup(). */
TEST(test_uart_found)
{
    struct uart u = {0};

    uart_write(&u, 1, 0xff);
    assert_int_equal(uart_read(&u, 1), 0x0f);
    uart_write(&u, 1, 0);
    assert_int_equal(uart_read(&u, 1), 0);
    uart_write(&u, 4, 0x1a);
    assert_int_equal(uart_read(&u, 6) & 0xf0, 0x90);
    uart_write(&u, 4, 0x15);
    assert_int_equal(uart_read(&u, 6) & 0xf0, 0x60);
    uart_write(&u, 4, 0);
    assert_int_equal(uart_read(&u, 6) & 0xf0, 0xb0);
    assert_int_equal(uart_read(&u, 2), 0x01);
    uart_write(&u, 2, 1);
    assert_int_equal(uart_read(&u, 2), 0xc1);
}

TEST(test_uart_interrupt)
{
    struct uart u = {0};

    assert_false(uart_interrupt(&u));
    assert_true(uart_write(&u, 0, 'x'));
    assert_false(uart_interrupt(&u));
    /* Enabling it while there is room raises it; naming it takes it back. */
    uart_write(&u, 1, 2);
    assert_true(uart_interrupt(&u));
    assert_int_equal(uart_read(&u, 2), 2);
    assert_false(uart_interrupt(&u));
    assert_int_equal(uart_read(&u, 2), 1);
    /* Each byte is out at once. Enabled again without a change, it stays as it is. */
    assert_true(uart_write(&u, 0, 'x'));
    assert_true(uart_interrupt(&u));
    assert_int_equal(uart_read(&u, 2), 2);
    uart_write(&u, 1, 2);
    assert_false(uart_interrupt(&u));
    assert_true(uart_write(&u, 0, 'x'));
    uart_write(&u, 1, 0);
    assert_false(uart_interrupt(&u));
    assert_int_equal(uart_read(&u, 2), 1);
    uart_write(&u, 1, 2);
    assert_true(uart_interrupt(&u));
    /* The divisor's high byte is not it. */
    uart_read(&u, 2);
    uart_write(&u, 1, 0);
    uart_write(&u, 3, 0x80);
    uart_write(&u, 1, 2);
    assert_false(uart_interrupt(&u));
}
