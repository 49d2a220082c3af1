/* SPDX-License-Identifier: BSD-2-Clause
 *
 * launch: boots a kernel in a virtual machine of the running kernel's KVM, with the guest's COM1 on
 * stdout: the smallest thing between a kernel and KVM, so that what is counted is KVM's.
 * Only for KVM on Intel's VMX. (Linux, Documentation/virt/kvm/api.rst.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "image.h"
#include "acpi.h"
#include "vm.h"

/* As testbed/run.sh and run-qemu.sh have them. */
enum status {
    STATUS_DONE = 0, /* the guest reset the machine, which is how it ends */
    STATUS_ERROR = 1,
    STATUS_SHUTDOWN = 3, /* triple fault */
    STATUS_REFUSED = 4,  /* no KVM on VMX */
    STATUS_TIMEOUT = 124,
};

#define MEMORY_DEFAULT 256
#define MEMORY_MIN 32
#define MEMORY_MAX 2048
#define SECONDS_DEFAULT 60
#define SECONDS_MAX 86400

struct launch_options {
    const char *kernel, *initrd, *append, *name;
    unsigned long memory, seconds, cpus;
    bool x2apic;
};

static const char usage[] =
    "usage: launch --kernel FILE [--initrd FILE] [--append S] [--memory MIB] [--timeout SECONDS]\n"
    "              [--apic xapic|x2apic]    the mode that the local APIC starts in\n"
    "              [--cpus N]               its processors\n"
    "              [--name TEXT]            begins each line of the guest's COM1; this program's\n"
    "                                       threads are launch-TEXT\n"
    "exit status: 0 the guest reset the machine, 3 triple fault, 4 no KVM on VMX here,\n"
    "             124 timeout, 1 other\n";

static int say(enum status status, const char *line)
{
    fflush(stdout);
    fprintf(stderr, "launch: %s\n", line);
    return status;
}

static bool number(const char *option, const char *text, unsigned long min, unsigned long max,
                   unsigned long *value, struct refusal *r)
{
    char *end;

    errno = 0;
    *value = strtoul(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *text != '-' && *value >= min && *value <= max)
        return true;
    return refuse(r, REFUSE_BAD_OPTION, "%s: found '%s', wanted %lu to %lu", option, text, min,
                  max);
}

static bool apic_mode(const char *option, const char *text, bool *x2apic, struct refusal *r)
{
    *x2apic = strcmp(text, "x2apic") == 0;
    if (*x2apic || strcmp(text, "xapic") == 0)
        return true;
    return refuse(r, REFUSE_BAD_OPTION, "%s: found '%s', wanted xapic or x2apic", option, text);
}

static bool read_options(int count, char **words, struct launch_options *o, struct refusal *r)
{
    for (int i = 1; i < count; i += 2) {
        const char *option = words[i], *value = words[i + 1];
        bool good = true;

        if (value == NULL)
            return refuse(r, REFUSE_BAD_OPTION, "%s: found no value, wanted one (see --help)",
                          option);
        if (strcmp(option, "--kernel") == 0)
            o->kernel = value;
        else if (strcmp(option, "--initrd") == 0)
            o->initrd = value;
        else if (strcmp(option, "--append") == 0)
            o->append = value;
        else if (strcmp(option, "--memory") == 0)
            good = number(option, value, MEMORY_MIN, MEMORY_MAX, &o->memory, r);
        else if (strcmp(option, "--cpus") == 0)
            good = number(option, value, 1, VM_CPUS_MAX, &o->cpus, r);
        else if (strcmp(option, "--name") == 0)
            o->name = value;
        else if (strcmp(option, "--apic") == 0)
            good = apic_mode(option, value, &o->x2apic, r);
        else if (strcmp(option, "--timeout") == 0)
            good = number(option, value, 1, SECONDS_MAX, &o->seconds, r);
        else
            return refuse(r, REFUSE_BAD_OPTION, "found the unknown option '%s' (see --help)",
                          option);
        if (!good)
            return false;
    }
    if (o->kernel == NULL)
        return refuse(r, REFUSE_BAD_OPTION, "--kernel: found none, wanted a file (see --help)");
    return true;
}

static bool map_file(const char *option, struct image_file *file, struct refusal *r)
{
    static const char nothing[1];
    struct stat status;
    int fd = open(file->name, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &status) != 0)
        return refuse(r, REFUSE_NOT_FOUND, "%s %s: cannot be opened (%s); give a file", option,
                      file->name, strerror(errno));
    file->size = (uint64_t)status.st_size;
    file->data = nothing;
    if (file->size != 0)
        file->data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file->data == MAP_FAILED)
        return refuse(r, REFUSE_BAD_FILE, "%s %s: cannot be read (%s); give a file", option,
                      file->name, strerror(errno));
    return true;
}

/* The host's scheduler trace has these names. */
static void name_threads(const char *name)
{
    char text[16]; /* prctl(2) cuts it off there */

    snprintf(text, sizeof(text), "launch-%s", name);
    (void)prctl(PR_SET_NAME, text);
}

static int run(struct vm *vm, const struct launch_options *o)
{
    struct refusal r;

    if (o->name != NULL)
        name_threads(o->name);
    printf("launch: memory=%lu cpus=%lu apic=%s pmu_version=%u perf_capabilities=0x%lx\n",
           o->memory, o->cpus, o->x2apic ? "x2apic" : "xapic", vm->pmu_version,
           (unsigned long)vm->perf_capabilities);
    switch (vm_run(vm, (unsigned)o->seconds, o->name, &r)) {
    case VM_END_RESET:
        printf("launch: guest_apic=%s\n", vm_x2apic(vm) ? "x2APIC" : "xAPIC");
        printf("launch: large_pages=%u%%\n", vm_large_pages(vm));
        return STATUS_DONE;
    case VM_END_SHUTDOWN:
        return say(STATUS_SHUTDOWN, "the guest's processor shut down (triple fault)");
    case VM_END_TIME:
        return say(STATUS_TIMEOUT, "the guest had not ended when its time was over (--timeout)");
    default:
        return say(STATUS_ERROR, r.line);
    }
}

int main(int count, char **words)
{
    struct launch_options o = {.append = "",
                               .memory = MEMORY_DEFAULT,
                               .seconds = SECONDS_DEFAULT,
                               .cpus = 1,
                               .x2apic = true};
    struct image_entry entry;
    struct kvm_host host;
    struct refusal r;
    struct vm vm;

    if (count == 2 && strcmp(words[1], "--help") == 0) {
        fputs(usage, stdout);
        return STATUS_DONE;
    }
    if (!read_options(count, words, &o, &r))
        return say(STATUS_ERROR, r.line);
    kvm_host_read(&host);
    if (!kvm_host_check(&host, &r))
        return say(STATUS_REFUSED, r.line);
    struct image_file kernel = {.name = o.kernel}, initrd = {.name = o.initrd};
    if (!map_file("--kernel", &kernel, &r) ||
        (o.initrd != NULL && !map_file("--initrd", &initrd, &r)) ||
        !vm_make(&vm, o.memory << 20, (unsigned)o.cpus, &r) ||
        !image_place(vm.memory, vm.memory_size, &kernel, &initrd, o.append, &entry, &r) ||
        !vm_enter_at(&vm, &entry, o.x2apic, &r))
        return say(STATUS_ERROR, r.line);
    acpi_place(vm.memory, vm.cpus);
    return run(&vm, &o);
}
