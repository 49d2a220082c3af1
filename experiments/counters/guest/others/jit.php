<?php
// SPDX-License-Identifier: BSD-2-Clause
// jit.php: the load of PHP's JIT compiler: three functions of known shares, and what they have computed.
function sieve($limit)
{
    $left = array_fill(2, $limit - 1, true);
    for ($n = 2; $n * $n <= $limit; $n++) {
        for ($at = $n * $n; $at <= $limit; $at += $n) {
            unset($left[$at]);
        }
    }
    return count($left);
}

function collatz($limit)
{
    $longest = 0;
    for ($begin = 1; $begin < $limit; $begin++) {
        for ($n = $begin, $steps = 0; $n != 1; $steps++) {
            $n = $n % 2 ? 3 * $n + 1 : $n >> 1;
        }
        $longest = max($longest, $steps);
    }
    return $longest;
}

function product($size)
{
    $sum = 0;
    for ($i = 0; $i < $size; $i++) {
        for ($j = 0; $j < $size; $j++) {
            for ($k = 0; $k < $size; $k++) {
                $sum += $i * $k ^ $j;
            }
        }
    }
    return $sum;
}

echo 'primes ', sieve(100000), ', steps ', collatz(20000), ', sum ', product(100), "\n";
