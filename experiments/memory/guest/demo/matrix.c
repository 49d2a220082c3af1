/* SPDX-License-Identifier: BSD-2-Clause
 *
 * matrix.c: writes a matrix row by row, then column by column: the first fills line after line of
 * the cache, the second comes back to each line once for each of its cells. Says where the matrix
 * is.
 */
#include <stdint.h>
#include <stdio.h>

#define SIDE 64

static uint64_t cells[SIDE][SIDE] __attribute__((aligned(4096)));

static void put(volatile uint64_t *cell, uint64_t value) { *cell = value; }

int main(void)
{
    printf("matrix: first=%p bytes=%zu side=%d\n", (void *)cells, sizeof(cells), SIDE);
    fflush(stdout);
    for (uint64_t row = 0; row < SIDE; row++)
        for (uint64_t column = 0; column < SIDE; column++)
            put(&cells[row][column], row * SIDE + column + 1);
    for (uint64_t column = 0; column < SIDE; column++)
        for (uint64_t row = 0; row < SIDE; row++)
            put(&cells[row][column], ~(row * SIDE + column));
    return 0;
}
