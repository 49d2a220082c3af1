/* SPDX-License-Identifier: BSD-2-Clause
 * targets.c: the parsers. Each bug lies behind several branches, of which one more is taken by an
 * input that is a little nearer: that is what feedback can see and chance cannot. "Reached" is
 * where a real parser would have read or written outside its buffer.
 */
#include "targets.h"

#include <string.h>

/* A file's head: magic bytes, a version, a count of entries that does not fit. */
static bool parse_magic(const uint8_t *d, size_t n)
{
    if (n < 4 || d[0] != 'P' || d[1] != 'M')
        return false;
    return d[2] < 4 && d[3] > 200;
}

/* Tag, length, value: a field of tag 7 inside one of tag 3 that is longer than what is left. */
static bool parse_tlv(const uint8_t *d, size_t n)
{
    bool inside = false;

    for (size_t at = 0; at + 2 <= n;) {
        uint8_t tag = d[at], length = d[at + 1];

        at += 2;
        if (tag == 3) {
            inside = true;
            continue;
        }
        if (at + length > n)
            return inside && tag == 7;
        if (tag == 0)
            break;
        at += length;
    }
    return false;
}

/* Brackets of three kinds, nested deeper than the stack has room, closed by the wrong one. */
static bool parse_nest(const uint8_t *d, size_t n)
{
    char stack[8];
    size_t depth = 0;

    for (size_t i = 0; i < n; i++) {
        switch (d[i]) {
        case '(':
        case '[':
            if (depth == 5)
                return d[i] == '[' && stack[depth - 1] == '[';
            stack[depth++] = (char)d[i];
            break;
        case ')':
        case ']':
            if (depth == 0 || stack[depth - 1] != (d[i] == ')' ? '(' : '['))
                return false;
            depth--;
            break;
        default:
            break;
        }
    }
    return false;
}

/* key=value lines: the size of a section that was never opened by its name. */
static bool parse_config(const uint8_t *d, size_t n)
{
    unsigned state = 0;

    for (size_t i = 0; i < n; i++) {
        switch (state) {
        case 0:
            state = d[i] == '[' ? 1 : 0;
            break;
        case 1:
            state = d[i] == 'm' ? 2 : 0;
            break;
        case 2:
            state = d[i] == ']' ? 3 : 0;
            break;
        case 3:
            state = d[i] == '=' ? 4 : 3;
            break;
        default:
            return d[i] == '-';
        }
    }
    return false;
}

/* UTF-8 of four bytes whose value is beyond the last character. */
static bool parse_utf8(const uint8_t *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned more = 0;

        if (d[i] >= 0xf0)
            more = 3;
        else if (d[i] >= 0xe0)
            more = 2;
        else if (d[i] >= 0xc0)
            more = 1;
        if (i + more >= n)
            return false;
        for (unsigned k = 1; k <= more; k++)
            if ((d[i + k] & 0xc0) != 0x80)
                return false;
        if (more == 3 && d[i] > 0xf4)
            return true;
        i += more;
    }
    return false;
}

/* Literals and copies: a copy from before the output's begin, after two good ones. */
static bool parse_copy(const uint8_t *d, size_t n)
{
    uint8_t out[128];
    size_t used = 0;
    unsigned good = 0;

    for (size_t i = 0; i + 1 < n; i += 2) {
        if (d[i] < 0x80) {
            if (used == sizeof(out))
                return false;
            out[used++] = d[i + 1];
        } else {
            size_t back = d[i + 1], length = d[i] & 7;

            if (back == 0 || back > used)
                return good >= 2 && back == used + 1;
            for (size_t k = 0; k < length && used < sizeof(out); k++, used++)
                out[used] = out[used - back];
            good++;
        }
    }
    return false;
}

/* A protocol's commands in their order; the last one a second time. */
static bool parse_session(const uint8_t *d, size_t n)
{
    unsigned state = 0;

    for (size_t i = 0; i < n; i++) {
        if (d[i] == 'Q')
            return false;
        if (state == 0 && d[i] == 'H')
            state = 1;
        else if (state == 1 && d[i] == 'A')
            state = 2;
        else if (state == 2 && d[i] == 'S')
            state = 3;
        else if (state == 3 && d[i] == 'D')
            state = 4;
        else if (state == 4 && d[i] == 'D')
            return true;
    }
    return false;
}

const struct target targets[TARGETS] = {
    {"magic", parse_magic, "PAAA"},
    {"tlv", parse_tlv, "\x01\x02zz\x02\x01z"},
    {"nest", parse_nest, "a(b)c"},
    {"config", parse_config, "[a]=1"},
    {"utf8", parse_utf8, "caf\xc3\xa9"},
    {"copy", parse_copy, "\x01z\x01y"},
    {"session", parse_session, "HELLO\nQUIT"},
};
