// SPDX-License-Identifier: BSD-2-Clause
//
// plugin.c: a plugin of QEMU's translator (TCG) that traces the guest's writes, the peer of
// memtrace=writes. Argument mode=`hook`: an empty function for each write, as the paper's "hook
// only". `record`: a ring of 32-byte records as well, which a page of memory would hold as
// memtrace's does: guest-linear and guest-physical address, size, number. `count`: no record, and
// at the end it prints how many there were.
//
// Debian has no package with QEMU's header, so what is used of that interface is declared here, by
// its documentation: https://www.qemu.org/docs/master/devel/tcg-plugins.html
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NO_REGISTERS 0  // the callback reads none of the processor's
#define ACCESSES "accesses="
#define RING_RECORDS (1u << 15)  // 1 MiB

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef void translated(uint64_t id, struct qemu_plugin_tb *block);
typedef void accessed(unsigned processor, uint32_t info, uint64_t linear, void *data);
typedef void ended(uint64_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated *call);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t n);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, accessed *call,
                                      int registers, int accesses, void *data);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t linear);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
void qemu_plugin_register_atexit_cb(uint64_t id, ended *call, void *data);

// What QEMU asks of a plugin.
EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *machine, int argc, char **argv);

int qemu_plugin_version = PLUGIN_VERSION;  // build.sh

struct record {
    uint64_t linear, physical, number;
    uint32_t bytes, processor;
};

static struct record *ring;
static uint64_t writes;
static accessed *each_write;
// Which accesses, as the interface numbers them: 1 read, 2 write, 3 both. QEMU before its patch
// "accel/tcg/plugin: Fix op_rw" (R. Henderson, November 2022) compares with the number plus one:
// asked for 2 it calls for reads as well, asked for 1 for writes alone. measure.py finds out by
// counting.
static int accesses;

static void hook(unsigned processor, uint32_t info, uint64_t linear, void *data)
{
    (void)processor, (void)info, (void)linear, (void)data;
}

static void hook_and_count(unsigned processor, uint32_t info, uint64_t linear, void *data)
{
    (void)processor, (void)info, (void)linear, (void)data;
    writes++;
}

// One processor: nobody else writes the ring.
static void record(unsigned processor, uint32_t info, uint64_t linear, void *data)
{
    const struct qemu_plugin_hwaddr *address = qemu_plugin_get_hwaddr(info, linear);
    struct record *next = &ring[writes % RING_RECORDS];

    (void)data;
    next->linear = linear;
    next->physical = address != NULL ? qemu_plugin_hwaddr_phys_addr(address) : UINT64_MAX;
    next->bytes = 1u << qemu_plugin_mem_size_shift(info);
    next->processor = processor;
    next->number = writes++;
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *block)
{
    size_t count = qemu_plugin_tb_n_insns(block);

    (void)id;
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), each_write,
                                         NO_REGISTERS, accesses, NULL);
}

static void at_end(uint64_t id, void *data)
{
    (void)id, (void)data;
    fprintf(stderr, "plugin: writes=%lu\n", writes);
}

int qemu_plugin_install(uint64_t id, const void *machine, int argc, char **argv)
{
    static const struct {
        const char *name;
        accessed *call;
    } modes[] = {{"mode=hook", hook}, {"mode=count", hook_and_count}, {"mode=record", record}};

    (void)machine;
    for (int n = 0; n < argc; n++) {
        for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
            if (strcmp(argv[n], modes[i].name) == 0)
                each_write = modes[i].call;
        if (strncmp(argv[n], ACCESSES, strlen(ACCESSES)) == 0)
            accesses = atoi(argv[n] + strlen(ACCESSES));
    }
    if (each_write == NULL || accesses < 1 || accesses > 3) {
        fprintf(stderr, "plugin: wanted mode=hook, count or record, and accesses=1, 2 or 3\n");
        return 1;
    }
    if (each_write == record && (ring = calloc(RING_RECORDS, sizeof(*ring))) == NULL) {
        fprintf(stderr, "plugin: no memory for the ring\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_end, NULL);
    return 0;
}
