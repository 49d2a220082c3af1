/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Formats text: the part of printf that the log and the refusals use. Pure; depends on nothing.
 */
#include "console/log.h"

#include <stdbool.h>

struct output {
    char *text;
    size_t size;       /* bytes in the buffer */
    size_t length;     /* bytes written, without the terminator */
    va_list arguments; /* that are still to be formatted */
};

struct directive {
    bool left;  /* flag `-` */
    bool zeros; /* flag `0` */
    size_t width;
    size_t precision; /* for %s; SIZE_MAX: none */
    bool is_long;     /* `l` */
};

static void put_character(struct output *out, char c)
{
    if (out->length + 1 < out->size)
        out->text[out->length++] = c;
}

static void put_repeated(struct output *out, char c, size_t n)
{
    /* Stop when the buffer is full, because the caller's width may be far larger. */
    for (size_t i = 0; i < n && out->length + 1 < out->size; i++)
        put_character(out, c);
}

/* Pads the text. A minus goes after the blanks and before the zeros. */
static void put_text(struct output *out, const struct directive *d, bool minus, const char *text,
                     size_t length)
{
    size_t padding = d->width > minus + length ? d->width - minus - length : 0;

    if (!d->left && !d->zeros)
        put_repeated(out, ' ', padding);
    put_repeated(out, '-', minus);
    if (!d->left && d->zeros)
        put_repeated(out, '0', padding);
    for (size_t i = 0; i < length; i++)
        put_character(out, text[i]);
    if (d->left)
        put_repeated(out, ' ', padding);
}

static void put_number(struct output *out, const struct directive *d, unsigned long value,
                       unsigned base, bool minus)
{
    char digits[24], *first = digits + sizeof(digits);

    do {
        *--first = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    put_text(out, d, minus, first, (size_t)(digits + sizeof(digits) - first));
}

static size_t bounded_length(const char *text, size_t limit)
{
    size_t length = 0;
    while (length < limit && text[length] != '\0')
        length++;
    return length;
}

/* Reads flags, width, precision and length modifier. Returns the place of the conversion. */
static const char *read_directive(const char *p, struct directive *d, struct output *out)
{
    *d = (struct directive){.precision = SIZE_MAX};
    for (; *p == '-' || *p == '0'; p++) {
        d->left |= *p == '-';
        d->zeros |= *p == '0';
    }
    for (; *p >= '0' && *p <= '9'; p++)
        d->width = d->width * 10 + (size_t)(*p - '0');
    if (p[0] == '.' && p[1] == '*') {
        d->precision = va_arg(out->arguments, unsigned);
        p += 2;
    }
    d->is_long = *p == 'l';
    return p + d->is_long;
}

static void put_conversion(struct output *out, const struct directive *d, char conversion)
{
    switch (conversion) {
    case 's': {
        const char *text = va_arg(out->arguments, const char *);
        if (text == NULL)
            text = "(null)";
        put_text(out, d, false, text, bounded_length(text, d->precision));
        break;
    }
    case 'c': {
        char c = (char)va_arg(out->arguments, int);
        put_text(out, d, false, &c, 1);
        break;
    }
    case 'd': {
        long value = d->is_long ? va_arg(out->arguments, long) : va_arg(out->arguments, int);
        put_number(out, d, value < 0 ? 0 - (unsigned long)value : (unsigned long)value, 10,
                   value < 0);
        break;
    }
    case 'u':
    case 'x': {
        unsigned long value = d->is_long ? va_arg(out->arguments, unsigned long)
                                         : va_arg(out->arguments, unsigned);
        put_number(out, d, value, conversion == 'x' ? 16 : 10, false);
        break;
    }
    default: /* "%%", or an unknown conversion, which is copied so that somebody notices it */
        put_character(out, '%');
        if (conversion != '%')
            put_character(out, conversion);
    }
}

size_t format_text_v(char *out_text, size_t size, const char *format, va_list arguments)
{
    struct output out = {.text = out_text, .size = size};
    struct directive d;

    if (size == 0)
        return 0;
    va_copy(out.arguments, arguments);
    for (const char *p = format; *p != '\0'; p++) {
        if (*p != '%') {
            put_character(&out, *p);
            continue;
        }
        p = read_directive(p + 1, &d, &out);
        if (*p == '\0')
            break;
        put_conversion(&out, &d, *p);
    }
    va_end(out.arguments);
    out.text[out.length] = '\0';
    return out.length;
}

size_t format_text(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t length = format_text_v(out, size, format, arguments);
    va_end(arguments);
    return length;
}
