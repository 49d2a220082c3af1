# SPDX-License-Identifier: BSD-2-Clause
# stones.py: work for the interpreter of the kind of pystone: records, arrays, strings, calls and
# comparisons, a fixed number of rounds. Usage: stones.py ROUNDS
import sys


class Record:
    def __init__(self, kind, number, text):
        self.kind, self.number, self.text, self.next = kind, number, text, None

    def copy(self):
        other = Record(self.kind, self.number, self.text)
        other.next = self.next
        return other


def first_difference(one, two):
    for at, (a, b) in enumerate(zip(one, two)):
        if a != b:
            return at
    return min(len(one), len(two))


def fill(array, table, at, value):
    array[at] = value
    array[at + 1] = array[at]
    for column in range(at, at + 2):
        table[at][column] = at
    table[at][at - 1] += 1
    return array[at] + table[at][at - 1]


def round_of(number, record, array, table):
    text = f"round {number % 97} of them"
    total = fill(array, table, 3 + number % 20, number)
    while total > 30:
        total = total // 3 + first_difference(text, record.text) % 2
    other = record.copy()
    other.text, other.number, other.next = text, total, record
    record.next = None
    return other if total % 2 else record


def main():
    record = Record(0, 0, "round 12 of all")
    array, table = [0] * 30, [[0] * 30 for _ in range(30)]
    for number in range(int(sys.argv[1])):
        record = round_of(number, record, array, table)
    print(record.number, sum(array), sum(map(sum, table)))


main()
