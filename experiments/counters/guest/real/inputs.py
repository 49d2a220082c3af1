#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# inputs.py: what the real programs work on, made by rule, so that it is the same everywhere and
# nothing is fetched for it. Also run by the guest's own Python, for larger inputs: no module that
# python3-minimal lacks. Usage: inputs.py SCALE FOLDER
import sys

LETTERS = "etaoinshrdlucmfw"
WORDS, WORD_LETTERS = 600, (2, 9)
TEXT_WORDS = 5000  # of a scale of 1, some 30 KB
NODES, ARCS_PER_NODE = 40, 6
ROWS = 400
FUNCTIONS = 8
SUPPLIES = 5  # a fifth of the nodes supply, a fifth demand


class Numbers:
    """A linear congruential generator: D. Knuth's MMIX."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % limit


def text(scale):
    """Words of a small language, the first ones far more often than the last."""
    numbers = Numbers(1)
    words = [
        "".join(
            LETTERS[min(numbers.below(16), numbers.below(16))]
            for _ in range(WORD_LETTERS[0] + numbers.below(WORD_LETTERS[1]))
        )
        for _ in range(WORDS)
    ]
    parts = []
    for at in range(TEXT_WORDS * scale):
        parts.append(words[min(numbers.below(WORDS), numbers.below(WORDS))])
        parts.append("\n" if at % 12 == 11 else " ")
    return "".join(parts)


def flow(scale):
    """A minimum-cost-flow problem in DIMACS' format. The ring of dear arcs makes it feasible."""
    numbers = Numbers(2)
    nodes = NODES * scale
    pairs = nodes // SUPPLIES
    lines = []
    total = 0
    for node in range(1, pairs + 1):
        amount = 1 + numbers.below(20)
        total += amount
        lines += [f"n {node} {amount}", f"n {nodes + 1 - node} {-amount}"]
    arcs = [(node, node % nodes + 1, total, 1000) for node in range(1, nodes + 1)]
    for node in range(1, nodes + 1):
        for _ in range(ARCS_PER_NODE - 1):
            other = 1 + numbers.below(nodes)
            if other != node:
                arcs.append((node, other, 1 + numbers.below(20), 1 + numbers.below(100)))
    lines += [f"a {tail} {head} 0 {capacity} {cost}" for tail, head, capacity, cost in arcs]
    return f"p min {nodes} {len(arcs)}\n" + "\n".join(lines) + "\n"


def sql(scale):
    """Of the kind of SQLite's own speedtest1: inserts, an index, ranges, a join, updates."""
    rows = ROWS * scale
    each = f"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {rows})"
    return "\n".join(
        (
            "CREATE TABLE t1(a INTEGER, b INTEGER, c TEXT);",
            "CREATE TABLE t2(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);",
            "BEGIN;",
            f"{each} INSERT INTO t1 SELECT x, (x * 7919) % 10007, printf('row %d of many', x * 31) "
            "FROM c;",
            f"{each} INSERT INTO t2 SELECT x, (x * 104729) % 10009, hex(x * x) FROM c;",
            "COMMIT;",
            "CREATE INDEX i1 ON t1(b);",
            "SELECT count(*), avg(b), sum(length(c)) FROM t1 WHERE b BETWEEN 1000 AND 6000;",
            "SELECT count(*) FROM t1 WHERE c LIKE '%9%of%';",
            "SELECT count(*), sum(t1.a) FROM t1 JOIN t2 ON t1.b = t2.a;",
            "UPDATE t1 SET b = b + 1 WHERE a % 3 = 0;",
            "SELECT b % 100, count(*) FROM t1 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5;",
            "DELETE FROM t2 WHERE b % 2 = 0;",
            "SELECT count(*), max(c) FROM t2;\n",
        )
    )


def source(scale):
    """C without any header, so that no other file is compiled with it."""
    numbers = Numbers(3)
    parts = ["struct node { struct node *next; long key; double weight; };\n"]
    for at in range(FUNCTIONS * scale):
        one, two, three = (1 + numbers.below(60) for _ in range(3))
        parts.append(
            f"""
static long walk_{at}(const struct node *list, long limit)
{{
    long sum = {one};

    for (const struct node *n = list; n != 0; n = n->next) {{
        switch ((n->key + {two}) % 5) {{
        case 0: sum += n->key * {three}; break;
        case 1: sum ^= (long)(n->weight * {one}.5); break;
        case 3: sum -= limit / ({two} + (n->key & 7)); break;
        default: sum = sum > limit ? sum - limit : sum + {two}; break;
        }}
    }}
    return sum;
}}
long table_{at}[{one + 4}];
long fill_{at}(const struct node *list)
{{
    for (int i = 0; i < {one + 4}; i++) {{
        table_{at}[i] = walk_{at}(list, i * {three}) + (i > 0 ? table_{at}[i - 1] : 0);
    }}
    return table_{at}[{one + 3}];
}}
"""
        )
    return "".join(parts)


def main():
    scale, folder = int(sys.argv[1]), sys.argv[2]
    for name, make in (("text", text), ("flow", flow), ("sql", sql), ("source.i", source)):
        with open(f"{folder}/{name}", "w", encoding="ascii") as out:
            out.write(make(scale))


if __name__ == "__main__":
    main()
