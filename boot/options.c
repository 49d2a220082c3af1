/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option parser. It turns text into struct options, and stores the values of experiments'
 * options in the experiments' own variables. Knows neither files nor firmware.
 */
#include "options.h"

#include <stddef.h>
#include <string.h>

#include "bits.h"
#include "boot/option_table.h"
#include "console/log.h"
#include "experiment.h"
#include "lib/refusal.h"

struct parser {
    struct options *options;
    const char *source;
    struct refusal *refusal;
};

struct text {
    const char *start;
    uint64_t length;
};

#define SHOWN_MAX 40 /* an error quotes at most this number of bytes of the user's text */

#define ROW(key, kind, field, initial, wanted, values, help)                                       \
    {#key,                                                                                         \
     kind,                                                                                         \
     offsetof(struct options, field),                                                              \
     sizeof(((struct options *)0)->field),                                                         \
     wanted,                                                                                       \
     {values},                                                                                     \
     NULL,                                                                                         \
     0},
/* `initial` may be {0}, so it has no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define INITIAL(key, kind, field, initial, wanted, values, help) .field = initial,
#define LIST_KEY(key, kind, field, initial, wanted, values, help) " " #key

static const struct option_row option_table[] = {OPTIONS(ROW)};
#define POLICY (&option_table[0]) /* experiments add values to this option */

static int cap_shown_length(struct text t)
{
    return t.length < SHOWN_MAX ? (int)t.length : SHOWN_MAX;
}

static bool text_equals(struct text t, const char *word)
{
    return t.length == strlen(word) && memcmp(t.start, word, t.length) == 0;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool refuse_option_value(const struct parser *p, const struct option_row *option,
                                struct text value)
{
    return refuse(p->refusal, REFUSE_BAD_OPTION,
                  "%s: option %s: found '%.*s', wanted %s; correct or remove it", p->source,
                  option->key, cap_shown_length(value), value.start, option->wanted);
}

/* Finds a value of the row, or an experiment's policy, by its name. Returns NULL if there is
 * none. */
static const struct option_choice *find_choice(const struct option_row *option, struct text word)
{
    for (unsigned i = 0; i < OPTION_CHOICES_MAX && option->choices[i].name != NULL; i++)
        if (text_equals(word, option->choices[i].name))
            return &option->choices[i];
    FOR_EACH_EXPERIMENT(e)
        if (option == POLICY && e->policy.name != NULL && text_equals(word, e->policy.name))
            return &e->policy;
    return NULL;
}

static bool parse_choices(const struct parser *p, const struct option_row *option,
                          struct text value, uint32_t *out)
{
    for (uint64_t at = 0, end; at <= value.length; at = end + 1) {
        for (end = at; end < value.length; end++)
            if (option->kind == STEPS && value.start[end] == ',')
                break;
        struct text word = {value.start + at, end - at};
        const struct option_choice *choice = find_choice(option, word);
        if (choice == NULL)
            return refuse_option_value(p, option, word);
        if (option == POLICY)
            p->options->policy_name = choice->name;
        *out |= choice->value;
    }
    return true;
}

/* Reads a decimal number, or for a PORT the hexadecimal digits after 0x. Port 0 is invalid. */
static bool read_number(const struct parser *p, const struct option_row *option, struct text value,
                        uint32_t *out)
{
    bool port = option->kind == PORT;
    uint64_t most = port ? CONSOLE_PORT_MAX : option->choices[0].value;
    uint64_t first = port ? 2 : 0, base = port ? 16 : 10;
    uint64_t number = value.length == first ? UINT64_MAX : 0;

    for (uint64_t i = first; i < value.length && number <= most; i++) {
        unsigned char c = (unsigned char)value.start[i];
        unsigned letter = (c | 0x20u) - 'a';
        unsigned digit = c <= '9' ? c - (unsigned)'0' : letter < 26 ? letter + 10 : 36;
        number = digit < base ? number * base + digit : UINT64_MAX;
    }
    *out = (uint32_t)number;
    return (number <= most && !(port && number == 0)) || refuse_option_value(p, option, value);
}

static bool set_option(const struct parser *p, const struct option_row *option, struct text value)
{
    char *field = option->field != NULL ? option->field : (char *)p->options + option->offset;
    uint32_t number = 0;

    if (option->kind != TEXT && option->kind != REST) {
        bool digits = option->kind == NUMBER || (option->kind == PORT && value.length > 1 &&
                                                 memcmp(value.start, "0x", 2) == 0);
        if (!(digits ? read_number : parse_choices)(p, option, value, &number))
            return false;
        memcpy(field, &number, option->size); /* little-endian: the low bytes come first */
        return true;
    }
    if (value.length == 0 && option->wanted != NULL)
        return refuse_option_value(p, option, value);
    if (value.length >= option->size)
        return refuse(p->refusal, REFUSE_BAD_OPTION,
                      "%s: option %s: found %lu characters, wanted at most %lu; shorten it",
                      p->source, option->key, (unsigned long)value.length,
                      (unsigned long)option->size - 1);
    memcpy(field, value.start, value.length);
    field[value.length] = '\0';
    return true;
}

static const struct option_row *find_option(struct text key)
{
    for (uint64_t i = 0; i < LENGTH_OF(option_table); i++)
        if (text_equals(key, option_table[i].key))
            return &option_table[i];
    FOR_EACH_EXPERIMENT(e)
        for (uint32_t i = 0; i < e->option_count; i++)
            if (text_equals(key, e->options[i].key))
                return &e->options[i];
    return NULL;
}

/* Parses one line, without its line end. */
static bool parse_line(const struct parser *p, struct text line)
{
    for (uint64_t at = 0, end, equal; at < line.length; at = end + 1) {
        for (end = at; end < line.length && !is_blank(line.start[end]); end++)
            ;
        if (end == at)
            continue; /* a blank after another */
        for (equal = at; equal < end && line.start[equal] != '='; equal++)
            ;
        struct text token = {line.start + at, end - at};
        const struct option_row *option = find_option((struct text){token.start, equal - at});
        if (option == NULL)
            return refuse(p->refusal, REFUSE_BAD_OPTION,
                          "%s: unknown option '%.*s', wanted one of:" OPTIONS(
                              LIST_KEY) "; correct or remove it, or, where it is an "
                                        "experiment's, start a "
                                        "pmuvisor-lab.efi that has it",
                          p->source, cap_shown_length(token), token.start);
        if (equal == end)
            return refuse(p->refusal, REFUSE_BAD_OPTION,
                          "%s: option %s has no value, wanted %s=VALUE; correct or remove it",
                          p->source, option->key, option->key);
        if (option->kind == REST) {
            end = line.length;
            while (end > equal + 1 && is_blank(line.start[end - 1]))
                end--;
        }
        struct text value = {line.start + equal + 1, end - equal - 1};
        if (!set_option(p, option, value))
            return false;
    }
    return true;
}

static bool check_printable(const char *text, uint64_t length, const char *source,
                            struct refusal *r)
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
    *o = (struct options){OPTIONS(INITIAL).policy_name = "msr+nmi"};
    FOR_EACH_EXPERIMENT(e)
        for (uint32_t i = 0; i < e->option_count; i++)
            memcpy(e->options[i].field, &e->options[i].initial, e->options[i].size);
}

bool options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                   struct refusal *r)
{
    const struct parser p = {.options = o, .source = source, .refusal = r};

    if (!check_printable(text, length, source, r))
        return false;
    for (uint64_t at = 0, end, first; at < length; at = end + 1) {
        for (end = at; end < length && text[end] != '\n' && text[end] != '\r'; end++)
            ;
        for (first = at; first < end && is_blank(text[first]); first++)
            ;
        if (first < end && text[first] != '#' &&
            !parse_line(&p, (struct text){text + at, end - at}))
            return false;
    }
    return true;
}
