/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes the virtual machine. What KVM offers is given to the guest as QEMU's `-cpu host,pmu=on`
 * does: its whole CPUID, with the PMU, and IA32_PERF_CAPABILITIES.
 * (Linux, Documentation/virt/kvm/api.rst; SDM Vol. 2, "CPUID"; SDM Vol. 3, "Segment Registers".)
 */
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "guest/linux.h"
#include "host.h"
#include "msr.h"

/* Three pages and one page that KVM may want on processors without "unrestricted guest"; no memory
 * of the guest is here. */
#define TSS_ADDRESS 0xfffbd000ul
#define IDENTITY_MAP_ADDRESS 0xfffbc000ul
#define LARGE_PAGE (2ul << 20)
#define SMALL_PAGE 4096u
#define CPUID_ENTRIES_MAX 256
#define LEAF_VERSION 1
#define CPUID_1_ECX_TSC_DEADLINE BIT(24)
#define CPUID_1_ECX_HYPERVISOR BIT(31)
#define CPUID_1_EBX_APIC_ID 0xff000000u
#define CPUID_1_EBX_APIC_ID_SHIFT 24
#define LEAF_PMU 0x0a
#define PMU_VERSION_MASK 0xff
#define PERF_CAP_LBR_FMT BITS(5, 0)
#define PERF_CAP_PEBS_FMT BITS(11, 8)
#define MISC_ENABLE_FAST_STRINGS BIT(0)
#define LEAF_TOPOLOGY 0x0b
#define LEAF_TOPOLOGY_V2 0x1f
#define CR0_PE BIT(0)
#define CR0_ET BIT(4)
#define RFLAGS_RESERVED_1 BIT(1)
#define SEGMENT_CODE 0x0b /* execute, read, accessed */
#define SEGMENT_DATA 0x03 /* read, write, accessed */

/* ioctl() with its failure as a refusal that names the request. */
static bool ask(int fd, unsigned long request, const char *name, const void *argument,
                struct refusal *r)
{
    if (ioctl(fd, request, argument) >= 0)
        return true;
    return refuse(r, REFUSE_UNSUPPORTED, "KVM: %s failed (%s); see the kernel log", name,
                  strerror(errno));
}
#define ASK(fd, request, argument, r) ask(fd, request, #request, (const void *)(argument), r)

/* In large pages, where Linux has them: a hypervisor that passes its machine on has them, too. They
 * are there before the guest is. */
static uint8_t *large_pages(uint64_t size)
{
    uint8_t *memory = mmap(NULL, size + LARGE_PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    memory += -(uintptr_t)memory % LARGE_PAGE;
    (void)madvise(memory, size, MADV_HUGEPAGE); /* fails where the kernel has none */
    for (uint64_t at = 0; at < size; at += SMALL_PAGE)
        *(volatile uint8_t *)(memory + at) = 0;
    return memory;
}

static bool make_memory(struct vm *vm, uint64_t size, struct refusal *r)
{
    uint8_t *memory = large_pages(size);

    if (memory == NULL)
        return refuse(r, REFUSE_NO_MEMORY,
                      "memory: found no %lu MiB for the virtual machine (%s); lower --memory",
                      (unsigned long)(size >> 20), strerror(errno));
    vm->memory = memory;
    vm->memory_size = size;
    struct kvm_userspace_memory_region region = {
        .memory_size = size,
        .userspace_addr = (uintptr_t)memory,
    };
    return ASK(vm->fd, KVM_SET_USER_MEMORY_REGION, &region, r);
}

static bool make_devices(struct vm *vm, struct refusal *r)
{
    uint64_t identity_map = IDENTITY_MAP_ADDRESS;
    struct kvm_pit_config pit = {.flags = KVM_PIT_SPEAKER_DUMMY};

    return ASK(vm->fd, KVM_SET_TSS_ADDR, TSS_ADDRESS, r) &&
           ASK(vm->fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map, r) &&
           ASK(vm->fd, KVM_CREATE_IRQCHIP, 0, r) && ASK(vm->fd, KVM_CREATE_PIT2, &pit, r);
}

static void edit_leaf(struct vm *vm, uint32_t id, struct kvm_cpuid_entry2 *leaf)
{
    switch (leaf->function) {
    case LEAF_VERSION:
        leaf->ecx |= (uint32_t)CPUID_1_ECX_HYPERVISOR;
        if (ioctl(vm->kvm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0)
            leaf->ecx |= (uint32_t)CPUID_1_ECX_TSC_DEADLINE;
        leaf->ebx = (leaf->ebx & ~CPUID_1_EBX_APIC_ID) | id << CPUID_1_EBX_APIC_ID_SHIFT;
        break;
    case LEAF_PMU:
        vm->pmu_version = leaf->eax & PMU_VERSION_MASK;
        break;
    case LEAF_TOPOLOGY:
    case LEAF_TOPOLOGY_V2:
        leaf->edx = id; /* x2APIC ID: of the host's processor, otherwise */
        break;
    default:
        break;
    }
}

static bool set_cpuid(struct vm *vm, uint32_t id, struct refusal *r)
{
    struct kvm_cpuid2 *table = calloc(1, sizeof(*table) +
                                             CPUID_ENTRIES_MAX * sizeof(table->entries[0]));
    bool done = false;

    if (table == NULL)
        return refuse(r, REFUSE_NO_MEMORY, "memory: found none for the CPUID table");
    table->nent = CPUID_ENTRIES_MAX;
    if (ASK(vm->kvm, KVM_GET_SUPPORTED_CPUID, table, r)) {
        for (uint32_t i = 0; i < table->nent; i++)
            edit_leaf(vm, id, &table->entries[i]);
        done = ASK(vm->vcpus[id].fd, KVM_SET_CPUID2, table, r);
    }
    free(table);
    return done;
}

/* One MSR, by KVM_GET_MSRS or KVM_SET_MSRS: of the processor, or, asked of KVM itself, what it
 * offers. False: there is none. */
static bool access_msr(int fd, unsigned long request, uint32_t index, uint64_t *value)
{
    _Alignas(struct kvm_msrs)
        uint8_t storage[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)] = {0};
    struct kvm_msrs *one = (void *)storage;

    one->nmsrs = 1;
    one->entries[0] = (struct kvm_msr_entry){.index = index, .data = *value};
    if (ioctl(fd, request, one) != 1)
        return false;
    *value = one->entries[0].data;
    return true;
}

/* KVM has the MSR among its features only where the guest's PMU has something of it. LBRs are for
 * those who ask for them, as in QEMU, because KVM then has more to do at every VM entry. */
static void set_perf_capabilities(struct vm *vm, int vcpu)
{
    uint64_t value = 0;

    if (!access_msr(vm->kvm, KVM_GET_MSRS, IA32_PERF_CAPABILITIES, &value))
        return;
    value &= ~PERF_CAP_LBR_FMT;
    if (access_msr(vcpu, KVM_SET_MSRS, IA32_PERF_CAPABILITIES, &value))
        vm->perf_capabilities = value;
}

/* Without fast strings Linux gives REP MOVS up and copies word by word: a user of QEMU, which sets
 * the bit, does not pay that. And where KVM has PEBS for its guest, it leaves it to its user to say
 * so. (SDM Vol. 4, "IA32_MISC_ENABLE".) */
static bool set_misc_enable(const struct vm *vm, int vcpu, struct refusal *r)
{
    uint64_t value = 0;
    bool good = access_msr(vcpu, KVM_GET_MSRS, IA32_MISC_ENABLE, &value);

    value |= MISC_ENABLE_FAST_STRINGS;
    if (vm->perf_capabilities & PERF_CAP_PEBS_FMT)
        value &= ~MISC_ENABLE_PEBS_UNAVAILABLE;
    if (good && access_msr(vcpu, KVM_SET_MSRS, IA32_MISC_ENABLE, &value))
        return true;
    return refuse(r, REFUSE_UNSUPPORTED,
                  "KVM: IA32_MISC_ENABLE cannot be set (%s); use a later "
                  "kernel",
                  strerror(errno));
}

static bool make_vcpu(struct vm *vm, uint32_t id, struct refusal *r)
{
    struct vcpu *vcpu = &vm->vcpus[id];

    vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, id);
    if (vcpu->fd < 0)
        return refuse(r, REFUSE_UNSUPPORTED, "KVM: KVM_CREATE_VCPU failed (%s); see the kernel log",
                      strerror(errno));
    int size = ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(*vcpu->run))
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: KVM_GET_VCPU_MMAP_SIZE: found %d, wanted at least %lu; use a later "
                      "kernel",
                      size, (unsigned long)sizeof(*vcpu->run));
    vcpu->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
    if (vcpu->run == MAP_FAILED)
        return refuse(r, REFUSE_NO_MEMORY, "KVM: the processor's run area cannot be mapped (%s)",
                      strerror(errno));
    if (!set_cpuid(vm, id, r))
        return false;
    set_perf_capabilities(vm, vcpu->fd);
    return set_misc_enable(vm, vcpu->fd, r);
}

bool vm_make(struct vm *vm, uint64_t memory_size, unsigned cpus, struct refusal *r)
{
    *vm = (struct vm){.kvm = open(KVM_DEVICE, O_RDWR | O_CLOEXEC), .cpus = cpus};
    if (vm->kvm < 0)
        return refuse(r, REFUSE_NOT_FOUND, "KVM: " KVM_DEVICE " does not open (%s)",
                      strerror(errno));
    int version = ioctl(vm->kvm, KVM_GET_API_VERSION, 0);
    if (version != KVM_API_VERSION)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: found API version %d, wanted %d; use Linux 2.6.22 or later", version,
                      KVM_API_VERSION);
    vm->fd = ioctl(vm->kvm, KVM_CREATE_VM, 0);
    if (vm->fd < 0)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: KVM_CREATE_VM failed (%s); is another hypervisor using VMX? See the "
                      "kernel log",
                      strerror(errno));
    /* KVM wants its devices before the first processor. */
    if (!make_memory(vm, memory_size, r) || !make_devices(vm, r))
        return false;
    for (uint32_t id = 0; id < cpus; id++)
        if (!make_vcpu(vm, id, r))
            return false;
    return true;
}

static struct kvm_segment flat(uint16_t selector, uint8_t type)
{
    return (struct kvm_segment){
        .limit = UINT32_MAX,
        .selector = selector,
        .type = type,
        .present = 1,
        .db = 1,
        .s = 1,
        .g = 1,
    };
}

bool vm_enter_at(struct vm *vm, const struct image_entry *entry, bool x2apic, struct refusal *r)
{
    struct kvm_regs regs = {.rip = entry->eip, .rsi = entry->esi, .rflags = RFLAGS_RESERVED_1};
    struct kvm_sregs sregs;

    /* TR and LDTR stay as they are after reset. x2APIC mode is what Linux takes under KVM. */
    if (!ASK(vm->vcpus[0].fd, KVM_GET_SREGS, &sregs, r))
        return false;
    if (x2apic)
        sregs.apic_base |= APIC_BASE_EXTD;
    sregs.cr0 = CR0_PE | CR0_ET;
    sregs.gdt.base = entry->gdt_base;
    sregs.gdt.limit = entry->gdt_limit;
    sregs.cs = flat(LINUX_BOOT_CS, SEGMENT_CODE);
    sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = flat(LINUX_BOOT_DS, SEGMENT_DATA);
    return ASK(vm->vcpus[0].fd, KVM_SET_SREGS, &sregs, r) &&
           ASK(vm->vcpus[0].fd, KVM_SET_REGS, &regs, r);
}

/* Of all large pages of this program: only the guest's memory has any. */
unsigned vm_large_pages(const struct vm *vm)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[128];
    unsigned long kib = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return (unsigned)(kib * 100 / (vm->memory_size >> 10));
}

bool vm_x2apic(const struct vm *vm)
{
    struct kvm_sregs sregs;

    return ioctl(vm->vcpus[0].fd, KVM_GET_SREGS, &sregs) == 0 &&
           (sregs.apic_base & APIC_BASE_EXTD) != 0;
}
