/* SPDX-License-Identifier: BSD-2-Clause
 * matrix.c: the program `matrix`: multiplies matrices of floating-point numbers, one product a
 * share.
 */
#include "accuracy.h"

#include <stdlib.h>

#define SIZE 48u
#define VALUES 1024u /* the elements are multiples of 1/VALUES below 1 */

struct matrix {
    uint64_t shares;
    double a[SIZE][SIZE], b[SIZE][SIZE], product[SIZE][SIZE];
};

static void *prepare(const struct work *work)
{
    struct matrix *m = pages_get(sizeof(*m), work);
    uint64_t random = work->seed;

    if (m == NULL)
        return NULL;
    m->shares = work->shares;
    for (size_t i = 0; i < SIZE; i++) {
        for (size_t j = 0; j < SIZE; j++) {
            m->a[i][j] = (double)(next_random(&random) % VALUES) / VALUES;
            m->b[i][j] = (double)(next_random(&random) % VALUES) / VALUES;
        }
    }
    return m;
}

static void multiply(struct matrix *m)
{
    for (size_t i = 0; i < SIZE; i++) {
        for (size_t j = 0; j < SIZE; j++) {
            double sum = 0;

            for (size_t k = 0; k < SIZE; k++)
                sum += m->a[i][k] * m->b[k][j];
            m->product[i][j] = sum;
        }
    }
}

static uint64_t run(void *data)
{
    struct matrix *m = data;

    for (uint64_t share = 0; share < m->shares; share++) {
        multiply(m);
        /* Each product is another one. */
        m->a[share % SIZE][0] = m->product[0][share % SIZE] / SIZE;
    }
    return m->product[SIZE - 1][SIZE - 1] > 0;
}

static void release(void *data) { pages_put(data, sizeof(struct matrix)); }

const struct program matrix_program = {
    .name = "matrix",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
