/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The four memory functions that compilers call on their own, and strlen. memcpy, memmove and
 * memset use string instructions (SDM Vol. 1, "String Instructions"), because a compiler could turn
 * a loop into a call of the very function that contains the loop. String instructions also touch no
 * SSE register.
 */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    void *p = to;
    __asm__ volatile("rep movsb" : "+D"(p), "+S"(from), "+c"(n) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    if ((uintptr_t)to - (uintptr_t)from >= n)
        return memcpy(to, from, n);
    /* Copy downwards, because an upward copy would overwrite the end of `from` before reading
     * it. */
    unsigned char *last_to = (unsigned char *)to + n - 1;
    const unsigned char *last_from = (const unsigned char *)from + n - 1;
    __asm__ volatile("std; rep movsb; cld" : "+D"(last_to), "+S"(last_from), "+c"(n) : : "memory");
    return to;
}

void *memset(void *to, int value, size_t n)
{
    void *p = to;
    __asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(value) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

size_t strlen(const char *s)
{
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    return n;
}
