/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option parser: text in, struct options out. Pure; knows neither files nor firmware.
 */
#include "options.h"

#include <stddef.h>

struct parser {
    struct options *options;
    const char *source;
    struct refusal *refusal;
};

struct text {
    const char *start;
    uint64_t length;
};

struct choice {
    const char *name;
    int value;
};

#define SHOWN_MAX 40 /* bytes of the user's text that an error quotes */

static int shown(struct text t)
{
    return t.length < SHOWN_MAX ? (int)t.length : SHOWN_MAX;
}

static bool equals(struct text t, const char *word)
{
    uint64_t i = 0;
    for (; i < t.length && word[i] != '\0'; i++) {
        if (t.start[i] != word[i])
            return false;
    }
    return i == t.length && word[i] == '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool bad_value(const struct parser *p, const char *key, struct text value,
                      const char *wanted)
{
    return refuse(p->refusal, REFUSE_BAD_OPTION,
                  "%s: option %s: found '%.*s', wanted %s; correct or remove it", p->source, key,
                  shown(value), value.start, wanted);
}

/* ---- one function per kind of value ---- */

static bool set_choice(const struct parser *p, const char *key, struct text value,
                       const struct choice *choices, const char *wanted, int *out)
{
    for (const struct choice *c = choices; c->name != NULL; c++) {
        if (equals(value, c->name)) {
            *out = c->value;
            return true;
        }
    }
    return bad_value(p, key, value, wanted);
}

static bool set_string(const struct parser *p, const char *key, struct text value, char *out,
                       uint64_t size)
{
    if (value.length >= size)
        return refuse(p->refusal, REFUSE_BAD_OPTION,
                      "%s: option %s: found %lu characters, wanted at most %lu; shorten it",
                      p->source, key, (unsigned long)value.length, (unsigned long)(size - 1));
    for (uint64_t i = 0; i < value.length; i++)
        out[i] = value.start[i];
    out[value.length] = '\0';
    return true;
}

static bool set_policy(const struct parser *p, const char *key, struct text value)
{
    static const struct choice policies[] = {
        {"intercept", POLICY_INTERCEPT}, {"msr", POLICY_MSR}, {"msr+nmi", POLICY_MSR_NMI}, {0}};
    int policy;

    if (!set_choice(p, key, value, policies, "intercept, msr or msr+nmi", &policy))
        return false;
    p->options->policy = (enum policy)policy;
    return true;
}

static bool set_console(const struct parser *p, const char *key, struct text value)
{
    static const struct choice consoles[] = {
        {"com1", CONSOLE_COM1}, {"com2", CONSOLE_COM2}, {"none", CONSOLE_NONE}, {0}};
    int console;

    if (!set_choice(p, key, value, consoles, "com1, com2 or none", &console))
        return false;
    p->options->console = (enum console)console;
    return true;
}

static bool set_apic(const struct parser *p, const char *key, struct text value)
{
    static const struct choice ways[] = {{"pass", false}, {"trap", true}, {0}};
    int trap;

    if (!set_choice(p, key, value, ways, "pass or trap", &trap))
        return false;
    p->options->apic_trap = trap;
    return true;
}

static bool set_pmu(const struct parser *p, const char *key, struct text value)
{
    static const struct choice switches[] = {{"off", false}, {"on", true}, {0}};
    int pmu;

    if (!set_choice(p, key, value, switches, "on or off", &pmu))
        return false;
    p->options->pmu = pmu;
    return true;
}

static bool set_stats(const struct parser *p, const char *key, struct text value)
{
    static const struct choice kinds[] = {{"counts", false}, {"cycles", true}, {0}};
    int cycles;

    if (!set_choice(p, key, value, kinds, "counts or cycles", &cycles))
        return false;
    p->options->stats_cycles = cycles;
    return true;
}

static bool set_user_hypercalls(const struct parser *p, const char *key, struct text value)
{
    static const struct choice switches[] = {{"0", false}, {"1", true}, {0}};
    int on;

    if (!set_choice(p, key, value, switches, "0 or 1", &on))
        return false;
    p->options->user_hypercalls = on;
    return true;
}

static bool set_tick(const struct parser *p, const char *key, struct text value)
{
    uint32_t ms = 0;

    for (uint64_t i = 0; i < value.length; i++) {
        char c = value.start[i];
        if (c < '0' || c > '9' || ms > TICK_MAX_MS)
            return bad_value(p, key, value, "milliseconds from 0 (no tick) to 10000");
        ms = ms * 10 + (uint32_t)(c - '0');
    }
    if (value.length == 0 || ms > TICK_MAX_MS)
        return bad_value(p, key, value, "milliseconds from 0 (no tick) to 10000");
    p->options->tick_ms = ms;
    return true;
}

static bool set_unblock(const struct parser *p, const char *key, struct text value)
{
    static const struct choice kinds[] = {{"eager", false}, {"lazy", true}, {0}};
    int lazy;

    if (!set_choice(p, key, value, kinds, "eager or lazy", &lazy))
        return false;
    p->options->unblock_lazy = lazy;
    return true;
}

static bool set_platform_nmi(const struct parser *p, const char *key, struct text value)
{
    static const struct choice owners[] = {{"guest", false}, {"host", true}, {0}};
    int host;

    if (!set_choice(p, key, value, owners, "guest or host", &host))
        return false;
    p->options->platform_nmi_host = host;
    return true;
}

/* all, none, or names separated by commas. */
static bool set_bookkeeping(const struct parser *p, const char *key, struct text value)
{
    static const struct choice steps[] = {{"lost", BOOKKEEPING_LOST},
                                          {"skid", BOOKKEEPING_SKID},
                                          {"unblock", BOOKKEEPING_UNBLOCK},
                                          {"mask", BOOKKEEPING_MASK},
                                          {"all", BOOKKEEPING_ALL},
                                          {"none", 0},
                                          {0}};
    uint32_t chosen = 0;

    for (uint64_t at = 0; at <= value.length;) {
        uint64_t end = at;
        int step;
        while (end < value.length && value.start[end] != ',')
            end++;
        if (!set_choice(p, key, (struct text){value.start + at, end - at}, steps,
                        "all, none, or some of lost,skid,unblock,mask", &step))
            return false;
        chosen |= (uint32_t)step;
        at = end + 1;
    }
    p->options->bookkeeping = chosen;
    return true;
}

static bool set_kernel(const struct parser *p, const char *key, struct text value)
{
    if (value.length == 0)
        return bad_value(p, key, value, "the path of a kernel");
    return set_string(p, key, value, p->options->kernel, sizeof(p->options->kernel));
}

static bool set_initrd(const struct parser *p, const char *key, struct text value)
{
    return set_string(p, key, value, p->options->initrd, sizeof(p->options->initrd));
}

static bool set_append(const struct parser *p, const char *key, struct text value)
{
    return set_string(p, key, value, p->options->append, sizeof(p->options->append));
}

/* ---- the table of options ---- */

static const struct option {
    const char *key;
    bool (*set)(const struct parser *p, const char *key, struct text value);
    bool takes_rest; /* of its line, blanks and all */
} option_table[] = {
    {"policy", set_policy, false},   {"apic", set_apic, false},     {"kernel", set_kernel, false}, {"initrd", set_initrd, false},
    {"append", set_append, true},    {"console", set_console, false}, {"pmu", set_pmu, false},
    {"stats", set_stats, false},     {"tick", set_tick, false},
    {"user_hypercalls", set_user_hypercalls, false}, {"unblock", set_unblock, false},
    {"platform_nmi", set_platform_nmi, false}, {"bookkeeping", set_bookkeeping, false},
};
#define OPTION_COUNT (sizeof(option_table) / sizeof(option_table[0]))
#define OPTION_NAMES "policy apic kernel initrd append console pmu stats tick user_hypercalls unblock " \
    "platform_nmi bookkeeping"

static const struct option *find_option(struct text key)
{
    for (uint64_t i = 0; i < OPTION_COUNT; i++) {
        if (equals(key, option_table[i].key))
            return &option_table[i];
    }
    return NULL;
}

/* One line, without its end. */
static bool parse_line(const struct parser *p, struct text line)
{
    uint64_t at = 0;

    for (;;) {
        while (at < line.length && is_blank(line.start[at]))
            at++;
        if (at == line.length)
            return true;

        uint64_t end = at, equal;
        while (end < line.length && !is_blank(line.start[end]))
            end++;
        for (equal = at; equal < end && line.start[equal] != '='; equal++)
            ;
        struct text token = {line.start + at, end - at};
        const struct option *option = find_option((struct text){token.start, equal - at});
        if (option == NULL)
            return refuse(p->refusal, REFUSE_BAD_OPTION,
                          "%s: unknown option '%.*s', wanted one of: " OPTION_NAMES
                          "; correct or remove it",
                          p->source, shown(token), token.start);
        if (equal == end)
            return refuse(p->refusal, REFUSE_BAD_OPTION,
                          "%s: option %s has no value, wanted %s=VALUE; correct or remove it",
                          p->source, option->key, option->key);
        if (option->takes_rest) {
            end = line.length;
            while (end > equal + 1 && is_blank(line.start[end - 1]))
                end--;
        }
        struct text value = {line.start + equal + 1, end - equal - 1};
        if (!option->set(p, option->key, value))
            return false;
        if (option->takes_rest)
            return true;
        at = end;
    }
}

static bool all_printable(const char *text, uint64_t length, const char *source, struct refusal *r)
{
    for (uint64_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c > '~')
            return refuse(r, REFUSE_BAD_OPTION,
                          "%s: found byte 0x%02x at offset %lu, wanted printable ASCII; write it "
                          "as plain text",
                          source, c, (unsigned long)i);
    }
    return true;
}

void options_default(struct options *o)
{
    *o = (struct options){
        .policy = POLICY_MSR_NMI,
        .console = CONSOLE_COM1,
        .pmu = true,
        .bookkeeping = BOOKKEEPING_ALL,
        .tick_ms = TICK_DEFAULT_MS,
        .kernel = "vmlinuz",
        .initrd = "initrd.img",
    };
}

bool options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                   struct refusal *r)
{
    const struct parser p = {.options = o, .source = source, .refusal = r};

    if (!all_printable(text, length, source, r))
        return false;
    for (uint64_t at = 0; at < length;) {
        uint64_t end = at, first;
        while (end < length && text[end] != '\n' && text[end] != '\r')
            end++;
        for (first = at; first < end && is_blank(text[first]); first++)
            ;
        if (first < end && text[first] != '#' &&
            !parse_line(&p, (struct text){text + at, end - at}))
            return false;
        at = end + 1;
    }
    return true;
}

const char *policy_name(enum policy policy)
{
    static const char *const names[] = {
        [POLICY_INTERCEPT] = "intercept", [POLICY_MSR] = "msr", [POLICY_MSR_NMI] = "msr+nmi"};
    return names[policy];
}
