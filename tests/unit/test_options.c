/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the option parser and of the texts that firmware hands over.
 */
#include "unit.h"

#include "boot/boot_text.h"
#include "experiment.h"
#include "lib/refusal.h"
#include "options.h"

static const struct experiment with_policy = {.policy = {"mine", POLICY_MSR}};
EXPERIMENT(with_policy);

/* Parses a copy of exactly that length, so that ASan sees a read past the end. */
static bool parse_bytes(struct options *o, const char *text, size_t length, struct refusal *r)
{
    char *copy = malloc(length + (length == 0));
    assert_non_null(copy);
    memcpy(copy, text, length);
    options_default(o);
    bool ok = options_parse(o, copy, length, "test.cfg", r);
    free(copy);
    return ok;
}

static void accept(struct options *o, const char *text)
{
    struct refusal r = {0};
    if (!parse_bytes(o, text, strlen(text), &r))
        fail_msg("refused: %s", r.line);
}

/* Every refusal names its source and has one line; `wanted` are parts of it. */
static void reject(const char *text, const char *wanted, const char *also)
{
    struct options o;
    struct refusal r = {0};
    assert_false(parse_bytes(&o, text, strlen(text), &r));
    assert_int_equal(r.kind, REFUSE_BAD_OPTION);
    assert_ptr_equal(strstr(r.line, "test.cfg: "), r.line);
    assert_null(strchr(r.line, '\n'));
    if (strstr(r.line, wanted) == NULL || strstr(r.line, also) == NULL)
        fail_msg("'%s' and '%s' are not both in: %s", wanted, also, r.line);
}

TEST(test_defaults)
{
    struct options o;
    accept(&o, "");
    assert_int_equal(o.policy, POLICY_MSR_NMI);
    assert_int_equal(o.console, CONSOLE_AUTO);
    assert_true(o.pmu);
    assert_true(o.hypervisor_bit);
    assert_false(o.stats_cycles);
    assert_int_equal(o.tick_ms, TICK_DEFAULT_MS);
    assert_int_equal(o.bookkeeping, BOOKKEEPING_ALL);
    assert_false(o.unblock_lazy);
    assert_false(o.user_hypercalls);
    assert_false(o.mitigations_off);
    assert_false(o.platform_nmi_host);
    assert_int_equal(o.wait_s, WAIT_DEFAULT_S);
    assert_false(o.fault_reset);
    assert_true(o.start);
    assert_int_equal(o.processors, 0);
    assert_true(o.vtd);
    assert_string_equal(o.kernel, "vmlinuz");
    assert_string_equal(o.initrd, "initrd.img");
    assert_string_equal(o.append, "");
}

TEST(test_every_option)
{
    struct options o;
    accept(&o, "policy=msr+nmi kernel=/boot/k initrd=\\i.img console=com2 pmu=off stats=cycles "
               "hypervisor_bit=off tick=0\tappend= a=b  c=d  ");
    assert_int_equal(o.policy, POLICY_MSR_NMI);
    assert_string_equal(o.kernel, "/boot/k");
    assert_string_equal(o.initrd, "\\i.img");
    assert_int_equal(o.console, 0x2f8);
    assert_false(o.pmu);
    assert_false(o.hypervisor_bit);
    assert_true(o.stats_cycles);
    assert_string_equal(o.append, " a=b  c=d");
}

TEST(test_crash_options)
{
    struct options o;
    accept(&o, "wait=3600 fault=reset start=off");
    assert_int_equal(o.wait_s, WAIT_MAX_S);
    assert_true(o.fault_reset);
    assert_false(o.start);
    accept(&o, "wait=0 fault=halt start=on");
    assert_int_equal(o.wait_s, 0);
    assert_false(o.fault_reset);
    assert_true(o.start);
}

TEST(test_lines_and_comments)
{
    struct options o;
    accept(&o, "# policy=wrong\r\n\r\n  # again = wrong\r\nconsole=none pmu=off\r\n"
               "append=root=/dev/sda1 # no comment\nstats=cycles");
    assert_int_equal(o.console, CONSOLE_NONE);
    assert_false(o.pmu);
    assert_string_equal(o.append, "root=/dev/sda1 # no comment");
    assert_true(o.stats_cycles);
}

TEST(test_bookkeeping)
{
    struct options o;
    accept(&o, "bookkeeping=none tick=10000 unblock=lazy platform_nmi=host user_hypercalls=1 "
               "mitigations=off");
    assert_int_equal(o.bookkeeping, 0);
    assert_int_equal(o.tick_ms, 10000);
    assert_true(o.unblock_lazy);
    assert_true(o.platform_nmi_host);
    assert_true(o.user_hypercalls);
    assert_true(o.mitigations_off);
    accept(&o, "bookkeeping=skid,mask");
    assert_int_equal(o.bookkeeping, BOOKKEEPING_SKID | BOOKKEEPING_MASK);
    accept(&o, "policy=msr");
    assert_int_equal(o.policy, POLICY_MSR);
    accept(&o, "policy=intercept");
    assert_int_equal(o.policy, POLICY_INTERCEPT);
}

TEST(test_apic)
{
    struct options o;
    accept(&o, "");
    assert_false(o.apic_trap);
    accept(&o, "apic=trap");
    assert_true(o.apic_trap);
    accept(&o, "apic=trap apic=pass");
    assert_false(o.apic_trap);
    reject("apic=x2", "option apic: found 'x2'", "wanted pass or trap");
}

TEST(test_ways_round_trouble)
{
    struct options o;
    accept(&o, "processors=1 vtd=off");
    assert_int_equal(o.processors, 1);
    assert_false(o.vtd);
    accept(&o, "vtd=on processors=512");
    assert_int_equal(o.processors, 512);
    assert_true(o.vtd);
    reject("processors=513", "option processors: found '513'", "wanted a number up to 512");
    reject("vtd=0", "option vtd: found '0'", "wanted on or off");
}

TEST(test_console)
{
    struct options o;
    static const struct {
        const char *text;
        uint32_t port;
    } cases[] = {{"console=com1", 0x3f8},
                 {"console=0x3e8", 0x3e8},
                 {"console=0x6Ab0", 0x6ab0},
                 {"console=0xfff8", 0xfff8},
                 {"console=0x1", 1},
                 {"console=none", CONSOLE_NONE},
                 {"console=0x2e8 console=auto", CONSOLE_AUTO}};
    static const char *const wrong[] = {
        "0x", "0x0", "0xfff9", "0x1000000000000003f8", "0x3g8", "3f8", "0X3f8", "com3", ""};
    for (unsigned i = 0; i < COUNT(cases); i++) {
        accept(&o, cases[i].text);
        assert_int_equal(o.console, cases[i].port);
    }
    for (unsigned i = 0; i < COUNT(wrong); i++) {
        char text[64];
        snprintf(text, sizeof(text), "console=%s", wrong[i]);
        reject(text, "option console: found '", "wanted auto, com1, com2, none or an I/O port");
    }
}

TEST(test_later_source_wins)
{
    struct options o;
    struct refusal r;
    options_default(&o);
    assert_true(options_parse(&o, "kernel=a append=x", 17, "first", &r));
    assert_true(options_parse(&o, "kernel=b append=", 16, "second", &r));
    assert_string_equal(o.kernel, "b");
    assert_string_equal(o.append, "");
}

TEST(test_policy_has_its_name)
{
    static const char *const names[] = {
        [POLICY_INTERCEPT] = "intercept", [POLICY_MSR] = "msr", [POLICY_MSR_NMI] = "msr+nmi"};
    struct options o;
    accept(&o, "");
    assert_string_equal(o.policy_name, names[o.policy]);
    for (unsigned i = 0; i < COUNT(names); i++) {
        char text[32];
        snprintf(text, sizeof(text), "policy=%s", names[i]);
        accept(&o, text);
        assert_int_equal(o.policy, i);
        assert_string_equal(o.policy_name, names[i]);
    }
}

/* It becomes the one that it is based on, until a later source says another. */
TEST(test_policy_of_experiment)
{
    struct options o;
    struct refusal r = {0};
    accept(&o, "policy=mine");
    assert_int_equal(o.policy, POLICY_MSR);
    assert_ptr_equal(o.policy_name, with_policy.policy.name);
    assert_true(options_parse(&o, "policy=msr", 10, "test.cfg", &r));
    assert_int_equal(o.policy, POLICY_MSR);
    assert_string_equal(o.policy_name, "msr");
    reject("policy=theirs", "found 'theirs'", "an experiment's that a pmuvisor-lab.efi has");
    reject("apic=mine", "option apic: found 'mine'", "wanted pass or trap");
}

TEST(test_empty_initrd_means_none)
{
    struct options o;
    accept(&o, "initrd=");
    assert_string_equal(o.initrd, "");
}

TEST(test_refusals)
{
    reject("polcy=msr+nmi", "unknown option 'polcy=msr+nmi'", "policy");
    reject(
        "quiet",
        "unknown option 'quiet', wanted one of: policy apic kernel initrd append console "
        "wait fault start pmu pt hypervisor_bit stats tick processors vtd user_hypercalls unblock "
        "platform_nmi mitigations bookkeeping; correct or remove it, or, where it is an "
        "experiment's, start a pmuvisor-lab.efi that has it",
        "test.cfg: ");
    reject("=x", "unknown option '=x'", "wanted");
    reject("policy", "policy has no value", "wanted policy=VALUE");
    reject("policy=", "found ''", "msr+nmi");
    reject("policy=ms", "found 'ms'", "intercept, msr or msr+nmi");
    reject("policy=msr+nmi2", "found 'msr+nmi2'", "intercept, msr or msr+nmi");
    reject("console=com3", "option console: found 'com3'", "com1, com2, none or an");
    reject("pmu=yes", "option pmu: found 'yes'", "on or off");
    reject("hypervisor_bit=0", "option hypervisor_bit: found '0'", "on or off");
    reject("stats=time", "option stats: found 'time'", "counts or cycles");
    reject("wait=3601", "option wait: found '3601'", "seconds from 0 to 3600");
    reject("fault=wait", "option fault: found 'wait'", "halt or reset");
    reject("start=later", "option start: found 'later'", "on or off");
    reject("tick=10001", "option tick: found '10001'", "from 0 (no tick) to 10000");
    reject("tick=99999999999999999999", "option tick: found '9999", "milliseconds");
    reject("tick=", "option tick: found ''", "milliseconds");
    reject("tick=-1", "option tick: found '-1'", "milliseconds");
    reject("unblock=yes", "option unblock: found 'yes'", "wanted eager or lazy");
    reject("bookkeeping=lost,", "option bookkeeping: found ''", "lost,skid,unblock,mask");
    reject("bookkeeping=lost,more", "option bookkeeping: found 'more'", "lost,skid,unblock,mask");
    reject("kernel=", "option kernel: found ''", "path");
    reject("pmu=on\nbad=1", "unknown option 'bad=1'", "wanted");
}

TEST(test_long_values)
{
    char text[OPTION_APPEND_MAX + 16];
    struct options o;

    memset(text, 'p', sizeof(text));
    memcpy(text, "kernel=", 7);
    text[7 + OPTION_PATH_MAX - 1] = '\0';
    accept(&o, text);
    assert_int_equal(strlen(o.kernel), OPTION_PATH_MAX - 1);
    text[7 + OPTION_PATH_MAX - 1] = 'p';
    text[7 + OPTION_PATH_MAX] = '\0';
    reject(text, "option kernel: found 256 characters", "at most 255");

    memset(text, 'a', sizeof(text));
    memcpy(text, "append=", 7);
    text[7 + OPTION_APPEND_MAX - 1] = '\0';
    accept(&o, text);
    assert_int_equal(strlen(o.append), OPTION_APPEND_MAX - 1);
    text[7 + OPTION_APPEND_MAX - 1] = 'a';
    text[7 + OPTION_APPEND_MAX] = '\0';
    reject(text, "option append: found 2048 characters", "at most 2047");
}

TEST(test_not_text)
{
    reject("pmu=on\n\xc3\xa9", "byte 0xc3 at offset 7", "ASCII");
    reject("append=\x7f", "byte 0x7f", "ASCII");

    struct options o;
    struct refusal r;
    assert_false(parse_bytes(&o, "pmu=on\0", 7, &r));
    assert_contains(r.line, "byte 0x00 at offset 6");
}

/* Any bytes at all: no crash, and a refusal that fits its line. */
TEST(test_noise)
{
    static const char alphabet[] = "policykernelappend=\n\r\t #+msrnmi0\x80";
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[64] = {0};
        struct options o;
        struct refusal r;
        size_t length = (seed >> 8) % sizeof(text);
        for (size_t i = 0; i < length; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = alphabet[(seed >> 8) % (sizeof(alphabet) - 1)];
        }
        seed = seed * 1664525u + 1013904223u;
        if (!parse_bytes(&o, text, length, &r))
            assert_true(strlen(r.line) < sizeof(r.line));
    }
}

/* ---- load options ---- */

static bool load(const char *ascii, size_t extra_zeros, char *out, struct refusal *r)
{
    size_t n = strlen(ascii) + extra_zeros;
    unsigned char *wide = calloc(2 * n + 1, 1); /* one more byte: an odd size */
    for (size_t i = 0; i < strlen(ascii); i++)
        wide[2 * i] = (unsigned char)ascii[i];
    bool ignored,
        ok = load_options_to_text(wide, 2 * n + 1, u"\\EFI\\x\\PMUvisor.efi", out, &ignored, r);
    assert_false(ignored);
    free(wide);
    return ok;
}

TEST(test_load_options)
{
    char out[LOAD_OPTIONS_MAX];
    struct refusal r;

    assert_true(load("policy=msr+nmi tick=0", 0, out, &r));
    assert_string_equal(out, "policy=msr+nmi tick=0");
    assert_true(load("policy=msr+nmi", 3, out, &r));
    assert_string_equal(out, "policy=msr+nmi");
    assert_true(load("fs0:\\x\\pmuvisor.EFI pmu=off", 1, out, &r));
    assert_string_equal(out, " pmu=off");
    assert_true(load("\"fs0:\\a b\\p.efi\" pmu=off", 1, out, &r));
    assert_string_equal(out, " pmu=off");
    assert_true(load("pmuvisor pmu=off", 1, out, &r));
    assert_string_equal(out, " pmu=off");
    assert_true(load("FS0:pmuvisor", 1, out, &r));
    assert_string_equal(out, "");
    assert_true(load("pmu", 1, out, &r)); /* a word that is not the image's name stays */
    assert_string_equal(out, "pmu");
    assert_true(load("pmuvisors x", 1, out, &r));
    assert_string_equal(out, "pmuvisors x");
    assert_true(load("pmuvisor.efi", 0, out, &r));
    assert_string_equal(out, "");
    assert_true(load("kernel=x.efi", 0, out, &r));
    assert_string_equal(out, "kernel=x.efi");
    bool ignored;
    assert_true(load_options_to_text(NULL, 0, u"", out, &ignored, &r));
    assert_string_equal(out, "");
}

TEST(test_load_options_refused)
{
    static char text[LOAD_OPTIONS_MAX + 2];
    char out[LOAD_OPTIONS_MAX];
    struct refusal r;

    memset(text, 'a', LOAD_OPTIONS_MAX - 1);
    assert_true(load(text, 0, out, &r));
    text[LOAD_OPTIONS_MAX - 1] = 'a';
    assert_false(load(text, 0, out, &r));
    assert_int_equal(r.kind, REFUSE_BAD_OPTION);
    assert_contains(r.line, "found 4096 characters, wanted at most 4095");

    bool ignored;
    const uint16_t wide[] = {'p', 0x20ac, '=', '1'};
    assert_false(load_options_to_text(wide, sizeof(wide), u"", out, &ignored, &r));
    assert_contains(r.line, "character 0x20ac at position 1");
}

/* What firmware puts there by itself on a direct boot. */
TEST(test_load_options_ignored)
{
    /* EDK II's mark of an option that it made itself; Windows' own, with text after it. */
    static const uint8_t guid[] = {0x4e, 0xac, 0x08, 0x81, 0x11, 0x9f, 0x59, 0x4d,
                                   0x85, 0x0e, 0xe2, 0x1a, 0x52, 0x2c, 0x59, 0xb2};
    static const uint8_t windows[] = "WINDOWS\0\1\0\0\0\x88\0\0\0x\0";
    static const uint16_t control[] = {1, 2, 3};
    static uint8_t noise[2 * LOAD_OPTIONS_MAX + 2];
    const struct {
        const void *bytes;
        uint64_t size;
    } cases[] = {{guid, sizeof(guid)},
                 {windows, sizeof(windows)},
                 {control, sizeof(control)},
                 {noise, sizeof(noise)}};
    char out[LOAD_OPTIONS_MAX];
    struct refusal r;

    memset(noise, 0xb7, sizeof(noise));
    for (unsigned i = 0; i < COUNT(cases); i++) {
        bool ignored = false;
        memset(out, '?', sizeof(out));
        assert_true(load_options_to_text(cases[i].bytes, cases[i].size, u"", out, &ignored, &r));
        assert_true(ignored);
        assert_string_equal(out, "");
    }
}

TEST(test_append_path)
{
    static const struct {
        const uint16_t *nodes[3];
        const uint16_t *wanted;
    } cases[] = {
        {{u"\\EFI\\x.efi"}, u"\\EFI\\x.efi"},
        {{u"\\EFI", u"x.efi"}, u"\\EFI\\x.efi"},
        {{u"\\EFI\\", u"x.efi"}, u"\\EFI\\x.efi"},
        {{u"\\EFI", u"\\x.efi"}, u"\\EFI\\x.efi"},
        {{u"\\EFI\\", u"\\x.efi"}, u"\\EFI\\x.efi"},
        {{u"EFI", u"a", u"x.efi"}, u"EFI\\a\\x.efi"},
        {{u"", u"x.efi"}, u"x.efi"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint16_t path[32] = {0};
        for (size_t k = 0; k < 3 && cases[i].nodes[k] != NULL; k++) {
            uint64_t count = 0; /* the terminator counts: firmware's nodes have it */
            while (cases[i].nodes[k][count++] != 0)
                ;
            assert_true(append_path(path, 32, cases[i].nodes[k], count));
        }
        size_t n = 0;
        do
            assert_int_equal(path[n], cases[i].wanted[n]);
        while (cases[i].wanted[n++] != 0);
    }
    uint16_t five[5] = {0};
    assert_true(append_path(five, 5, u"\\ab", 3)); /* and without */
    assert_false(append_path(five, 5, u"cd", 2));
    uint16_t six[6] = {0};
    assert_true(append_path(six, 6, u"\\ab", 4));
    assert_true(append_path(six, 6, u"c", 2));
}

TEST(test_join_path)
{
    static const struct {
        const uint16_t *image;
        const char *path;
        const uint16_t *wanted;
    } cases[] = {
        {u"\\EFI\\p\\p.efi", "vmlinuz", u"\\EFI\\p\\vmlinuz"},
        {u"\\EFI\\p\\p.efi", "/boot/k", u"\\boot\\k"},
        {u"\\EFI\\p\\p.efi", "\\k", u"\\k"},
        {u"\\EFI\\p\\p.efi", "sub/k", u"\\EFI\\p\\sub\\k"},
        {u"p.efi", "k", u"k"},
        {u"", "k", u"k"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint16_t out[32], length = 0;
        assert_true(join_path(cases[i].image, cases[i].path, out, 32));
        while (cases[i].wanted[length] != 0)
            length++;
        assert_memory_equal(out, cases[i].wanted, (length + 1u) * sizeof(out[0]));
        for (size_t size = 0; size <= length + 1u; size++) {
            uint16_t *exact = malloc(size * sizeof(out[0]) + (size == 0));
            assert_int_equal(join_path(cases[i].image, cases[i].path, exact, size), size > length);
            free(exact);
        }
    }
}
