/* SPDX-License-Identifier: BSD-2-Clause
 * listing2.c: the workload that the job `profile` samples: the thesis's "Simple workload" (its
 * Listing 2), whose shares of time are known: a 30 %, aa 10 %, b 40 %, bb 30 %, bbb 10 %, c 30 %,
 * each with its callees. Built without optimisation and with frame pointers. The argument is ITER,
 * 100,000,000 in the thesis.
 */
#include <stdlib.h>

static int iter = 100000;

/* The limit is worked out before the loop, so that each round is the same four instructions. */
#define LOOP(x) for (int i = 0, n = (x); i < n; i++)

void aa(void)
{
    LOOP(iter) {}
}

void a(void)
{
    LOOP(2 * iter) {}
    aa();
}

void bbb(void)
{
    LOOP(iter) {}
}

void bb(void)
{
    LOOP(2 * iter) {}
    bbb();
}

void b(void)
{
    LOOP(1 * iter) {}
    bb();
}

void c(void)
{
    LOOP(3 * iter) {}
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        iter = atoi(argv[1]);
    }
    a();
    b();
    c();
    return 0;
}
