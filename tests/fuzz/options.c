/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: pmuvisor.cfg through the option parser. What it takes is in range and says the same
 * when it is written out and read again; what it refuses, it refuses in one line.
 */
#include "options.h"

#include "fuzz.h"
#include "lib/refusal.h"

#define SOURCE "fuzz.cfg"
#define TEXT_MAX (2 * OPTION_PATH_MAX + OPTION_APPEND_MAX + 512)

static bool parse(struct options *o, const void *text, size_t length)
{
    struct refusal r = {.kind = REFUSE_NO_MEMORY};
    char *copy = exactly(text, length);
    bool taken = options_parse(o, copy, length, SOURCE, &r);

    free(copy);
    if (!taken) {
        CHECK(r.kind == REFUSE_BAD_OPTION, "kind %d", r.kind);
        check_refusal(&r, SOURCE ": ");
    }
    return taken;
}

static void check_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    CHECK(length < size, "no end within %zu", size);
    for (size_t i = 0; i < length; i++)
        CHECK((text[i] >= ' ' && text[i] <= '~') || text[i] == '\t', "0x%02x", text[i]);
}

static void check_ranges(const struct options *o)
{
    CHECK(o->policy <= POLICY_MSR_NMI, "%d", (int)o->policy);
    CHECK(o->console <= CONSOLE_PORT_MAX || o->console == CONSOLE_AUTO, "0x%x", o->console);
    CHECK(o->tick_ms <= TICK_MAX_MS, "%u", o->tick_ms);
    CHECK(o->wait_s <= WAIT_MAX_S, "%u", o->wait_s);
    CHECK(o->processors <= PROCESSORS_MAX, "%u", o->processors);
    CHECK((o->bookkeeping & ~(uint32_t)BOOKKEEPING_ALL) == 0, "0x%x", o->bookkeeping);
    CHECK(o->kernel[0] != '\0', "no kernel");
    check_text(o->kernel, sizeof(o->kernel));
    check_text(o->initrd, sizeof(o->initrd));
    check_text(o->append, sizeof(o->append));
    CHECK(o->policy_name != NULL, "%d", (int)o->policy);
}

/* As a user would write it: all options. */
static int render(const struct options *o, char *out, size_t size)
{
    char steps[64] = "", port[16];

    snprintf(port, sizeof(port), "0x%x", o->console);
    snprintf(steps, sizeof(steps), "%s%s%s%s", o->bookkeeping & BOOKKEEPING_LOST ? ",lost" : "",
             o->bookkeeping & BOOKKEEPING_SKID ? ",skid" : "",
             o->bookkeeping & BOOKKEEPING_UNBLOCK ? ",unblock" : "",
             o->bookkeeping & BOOKKEEPING_MASK ? ",mask" : "");
    return snprintf(out, size,
                    "policy=%s apic=%s console=%s pmu=%s hypervisor_bit=%s stats=%s tick=%u\n"
                    "user_hypercalls=%d unblock=%s platform_nmi=%s mitigations=%s bookkeeping=%s\n"
                    "wait=%u fault=%s start=%s processors=%u vtd=%s\n"
                    "kernel=%s initrd=%s append=%s\n",
                    o->policy_name, o->apic_trap ? "trap" : "pass",
                    o->console == CONSOLE_NONE   ? "none"
                    : o->console == CONSOLE_AUTO ? "auto"
                                                 : port,
                    o->pmu ? "on" : "off", o->hypervisor_bit ? "on" : "off",
                    o->stats_cycles ? "cycles" : "counts", o->tick_ms, o->user_hypercalls,
                    o->unblock_lazy ? "lazy" : "eager", o->platform_nmi_host ? "host" : "guest",
                    o->mitigations_off ? "off" : "auto", steps[0] != '\0' ? steps + 1 : "none",
                    o->wait_s, o->fault_reset ? "reset" : "halt", o->start ? "on" : "off",
                    o->processors, o->vtd ? "on" : "off", o->kernel, o->initrd, o->append);
}

static void check_same(const struct options *o, const char *wanted)
{
    char text[TEXT_MAX];

    render(o, text, sizeof(text));
    CHECK(strcmp(text, wanted) == 0, "%s and %s", text, wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options first, again;
    char text[TEXT_MAX];

    options_default(&first);
    if (!parse(&first, data, size))
        return 0;
    check_ranges(&first);

    int length = render(&first, text, sizeof(text));
    CHECK(length > 0 && (size_t)length < sizeof(text), "%d", length);
    options_default(&again);
    CHECK(parse(&again, text, (size_t)length), "%s", text);
    check_same(&again, text);

    /* Reading a source once more changes nothing. */
    CHECK(parse(&again, data, size), "refused the second time");
    check_same(&again, text);
    return 0;
}
