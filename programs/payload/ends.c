/* SPDX-License-Identifier: BSD-2-Clause ends.c: the jobs in which this kernel ends with several
 * processors. It starts Debian's kernel anew from memory (kexec). It panics while no other
 * processor takes interrupts, so that only NMIs stop them (panic) or the NMI watchdog finds them
 * (lockup). An NMI that nobody knows ends it while perf samples all processors, and a crash kernel
 * follows (kdump). The job `rebootby` says by what and from which processor init resets the
 * machine later. SDM Vol. 3, "Multiple-Processor (MP) Initialization", "Nonmaskable Interrupt
 * (NMI)".
 */
#include "payload.h"
#include "smp.h"

#include <asm/bootparam.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096ul
#define SECTOR_BYTES 512
#define ENTRY_64 0x200 /* Linux's boot protocol, "64-bit BOOT PROTOCOL" */
#define LOADER_UNKNOWN 0xff
/* Physical addresses for the next kernel, free at its start on any machine of 512 MiB. */
#define START_AT 0x80000
#define PARAMETERS_AT 0x81000
#define COMMAND_LINE_AT 0x82000
#define KERNEL_AT 0x1000000
#define INITRD_AT 0x8000000
#define LOCKUP_SECONDS 10
#define KDUMP_PERIOD "20011"
#define KDUMP_PMIS 50
#define KDUMP_WAITS 1000
#define KDUMP_NMIS 10
#define APIC_ICR 0x300u
#define APIC_ICR_HIGH 0x310u
#define APIC_LVT_PMI 0x340u
#define ICR_NMI 0x4400u /* delivery mode NMI, level assert */
#define STUCK "/sys/module/pmuvisor_stuck/parameters/stuck"

/* The file whole, in memory that stays; NULL and errno. */
static uint8_t *read_file(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t length = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    void *data;

    if (length <= 0)
        return NULL;
    *size = (size_t)length;
    data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    return data == MAP_FAILED ? NULL : data;
}

/* What this kernel was given, with the header of the file for the next one, and without EFI, whose
 * runtime services cannot be taken over a second time. */
static bool fill_parameters(struct boot_params *p, const uint8_t *kernel, size_t initrd_bytes)
{
    size_t size = 0;
    int fd = open("/sys/kernel/boot_params/data", O_RDONLY | O_CLOEXEC);
    size_t header_end = 0x202u + kernel[0x201];

    if (fd >= 0) {
        size = (size_t)read(fd, p, sizeof(*p));
        close(fd);
    }
    if (size != sizeof(*p) || p->acpi_rsdp_addr == 0)
        return false;
    memcpy(&p->hdr, kernel + offsetof(struct boot_params, hdr),
           header_end - offsetof(struct boot_params, hdr));
    memset(&p->efi_info, 0, sizeof(p->efi_info));
    p->hdr.type_of_loader = LOADER_UNKNOWN;
    p->hdr.setup_data = 0;
    p->hdr.cmd_line_ptr = COMMAND_LINE_AT;
    p->hdr.ramdisk_image = INITRD_AT;
    p->hdr.ramdisk_size = (uint32_t)initrd_bytes;
    p->ext_ramdisk_image = p->ext_ramdisk_size = p->ext_cmd_line_ptr = 0;
    return true;
}

static size_t whole_pages(size_t bytes) { return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1); }

/* Not kexec_file_load(): that hashes the kernel three times, for minutes in an emulator. */
static int load_next(void)
{
    /* mov esi, boot parameters; mov eax, 64-bit entry; jmp rax */
    static const struct __attribute__((packed)) {
        uint8_t load_rsi;
        uint32_t parameters;
        uint8_t load_rax;
        uint32_t entry;
        uint8_t jump[2];
    } start = {0xbe, PARAMETERS_AT, 0xb8, KERNEL_AT + ENTRY_64, {0xff, 0xe0}};
    static struct boot_params parameters;
    static char line[NEXT_LINE_MAX];
    size_t kernel_bytes, initrd_bytes, setup_bytes;
    const uint8_t *kernel = read_file(NEXT_KERNEL, &kernel_bytes);
    const uint8_t *initrd = read_file(NEXT_INITRD, &initrd_bytes);

    if (kernel == NULL || initrd == NULL)
        return -errno;
    next_command_line("report", line, sizeof(line));
    if (!fill_parameters(&parameters, kernel, initrd_bytes))
        return -ENODATA;
    setup_bytes = (parameters.hdr.setup_sects + 1u) * SECTOR_BYTES;
    const struct {
        const void *from;
        size_t bytes;
        uint64_t to;
        size_t memory;
    } segments[] = {
        {&start, sizeof(start), START_AT, PAGE_BYTES},
        {&parameters, sizeof(parameters), PARAMETERS_AT, whole_pages(sizeof(parameters))},
        {line, sizeof(line), COMMAND_LINE_AT, whole_pages(sizeof(line))},
        {kernel + setup_bytes, kernel_bytes - setup_bytes, KERNEL_AT,
         whole_pages(parameters.hdr.init_size)},
        {initrd, initrd_bytes, INITRD_AT, whole_pages(initrd_bytes)},
    };

    return syscall(SYS_kexec_load, (unsigned long)START_AT, sizeof(segments) / sizeof(segments[0]),
                   segments, (unsigned long)KEXEC_ARCH_X86_64) == 0
               ? 0
               : -errno;
}

JOB(kexec)
{
    int error = load_next();

    printf("kexec: load=\"%s\"\n", strerror(-error));
    usleep(20000); /* the last characters are in the UART's FIFO */
    if (error == 0) {
        syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC, NULL);
        printf("kexec: error=\"reboot: %s\"\n", strerror(errno));
    }
    return 1;
}

/* Words: pmv.reboot=TYPE, as /sys/kernel/reboot/type has it, and pmv.reboot_cpu=N. */
JOB(rebootby)
{
    static const char *const keys[][2] = {{"pmv.reboot", "/sys/kernel/reboot/type"},
                                          {"pmv.reboot_cpu", "/sys/kernel/reboot/cpu"}};
    int failed = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char value[16];
        int error;

        command_line_word(keys[i][0], "", value, sizeof(value));
        error = write_text(keys[i][1], value);
        printf("rebootby: file=%s value=%s error=\"%s\"\n", keys[i][1], value, strerror(-error));
        failed |= error != 0;
    }
    return failed;
}

/* The watchdog has to find that all processors but the first take no interrupts, and to panic.
 * Returns only where it did not, after LOCKUP_SECONDS of the kernel's clock. */
JOB(lockup)
{
    static const struct {
        const char *file, *text;
    } settings[] = {{"/proc/sys/kernel/watchdog_thresh", "1\n"},
                    {"/proc/sys/kernel/hardlockup_panic", "1\n"},
                    {"/proc/sys/kernel/panic", "-1\n"}};
    int error = load_module("pmuvisor_stuck");

    if (error == 0)
        error = pin(0, 0);
    for (size_t i = 0; error == 0 && i < sizeof(settings) / sizeof(settings[0]); i++)
        error = write_text(settings[i].file, settings[i].text);
    printf("lockup: watchdog=%d error=\"%s\"\n", nmi_watchdog_runs(), strerror(-error));
    usleep(20000);
    if (error == 0 && write_text(STUCK, "1") == 0)
        sleep(LOCKUP_SECONDS);
    return 1;
}

/* Samples all processors until it is killed. */
static pid_t perf_record_all(void)
{
    pid_t child = fork();

    if (child == 0) {
        execl("/usr/bin/perf", "perf", "record", "-a", "-e", "instructions", "-c", KDUMP_PERIOD,
              "-o", "/tmp/samples", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* An NMI that nobody knows, to the last processor, from the first one; needs iomem=relaxed.
 * Returns only where no panic came. */
JOB(kdump)
{
    int last = processors_online() - 1, error = load_crash_kernel("report");
    volatile uint32_t *lvtpc = map_lvtpc();
    volatile uint32_t *icr = lvtpc == NULL ? NULL
                                           : lvtpc - (APIC_LVT_PMI - APIC_ICR) / sizeof(*icr);
    long long pmis[2];

    if (error == 0 && icr == NULL)
        error = -ENOMEM;
    if (error == 0 && (error = perf_lift_limits()) == 0)
        error = write_text("/proc/sys/kernel/unknown_nmi_panic", "1\n");
    printf("kdump: cpu=%d error=\"%s\"\n", last, strerror(-error));
    fflush(stdout);
    if (error != 0 || pin(0, 0) != 0)
        return 1;
    spin_on(last, ~0ull);
    pmis[0] = pmis[1] = interrupt_count("PMI");
    perf_record_all();
    for (int i = 0; i < KDUMP_WAITS && pmis[1] - pmis[0] < KDUMP_PMIS; i++) {
        usleep(10000);
        pmis[1] = interrupt_count("PMI");
    }
    printf("kdump: sampling=%d\n", pmis[1] - pmis[0] >= KDUMP_PMIS);
    usleep(20000);
    /* One that comes together with a PMI is no unknown one. */
    for (int i = 0; i < KDUMP_NMIS; i++) {
        icr[(APIC_ICR_HIGH - APIC_ICR) / sizeof(*icr)] = (uint32_t)last << 24;
        *icr = ICR_NMI;
        usleep(10000);
    }
    return 1;
}

JOB(panic)
{
    int error = load_module("pmuvisor_stuck");

    nmi_watchdog_set(false);
    write_text("/proc/sys/kernel/sysrq", "1\n");
    printf("panic: module=\"%s\" nmis=%lld\n", strerror(-error), interrupt_count("NMI"));
    usleep(20000);
    if (error != 0 || write_text(STUCK, "1") != 0)
        return 1;
    return write_text("/proc/sysrq-trigger", "c") != 0;
}
