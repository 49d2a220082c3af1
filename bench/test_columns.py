# SPDX-License-Identifier: BSD-2-Clause
# test_columns.py: one row more in columns.txt is one column more for Python, shells and the boot
# menu; bad rows are refused; the dictionaries that have a column's own values know their columns.
import os
import subprocess
import tempfile
import unittest

import columns
import more_tables
import plan
import plots
import published
import tables

HERE = os.path.dirname(os.path.abspath(__file__))
MENU = os.path.join(os.path.dirname(HERE), "testbed", "menu.sh")
MORE = ("lazy+x pmuvisor policy=msr/unblock=lazy PMUvisor, lazily\n"
        "abl_one lazy+x bookkeeping=lost\n")


def with_rows(rows, then):
    """What `then` makes of a table that has these rows as well."""
    with tempfile.NamedTemporaryFile("w", prefix="pmuvisor-columns.") as table:
        with open(columns.TABLE, encoding="ascii") as source:
            table.write(source.read() + rows)
        table.flush()
        return then(table.name)


def shell(command, **environment):
    done = subprocess.run(["sh", "-euc", command], stdout=subprocess.PIPE, check=True, text=True,
                          env={**os.environ, **environment})
    return done.stdout


# What shells and the boot menu have: peers are the emulator's alone.
MACHINES = [name for name in columns.NAMES if name not in columns.PEERS]


class Columns(unittest.TestCase):
    def test_peers_are_named_and_hosted(self):
        self.assertEqual({name: (columns.option(name, "host"), columns.option(name, "mediated"))
                          for name in columns.PEERS},
                         {"kvm-new": ("trixie-backports", ""),
                          "kvm-mediated": ("trixie-backports", "1")})
        for name in columns.NAMES:
            self.assertEqual(columns.is_kvm(name), name.startswith("kvm"))

    def test_one_row_is_one_column(self):
        there, parts, _ = with_rows(MORE, columns.read)
        self.assertEqual(tuple(there), (*columns.NAMES, "lazy+x"))
        self.assertEqual(there["lazy+x"], ("lazy+x", "pmuvisor", "policy=msr unblock=lazy",
                                           "PMUvisor, lazily"))
        self.assertEqual((parts["abl_one"].variant, parts["abl_one"].on), ("one", "lazy+x"))

    def test_shells_have_the_same_columns(self):
        reader = f". '{HERE}/columns.sh'; column_names; part_names; column_of abl_one; " \
                 "variant_of abl_one; column_of lazy+x; column_of lazy; column_of abl_two"
        said = with_rows(MORE, lambda table: shell(reader, columns_table=table)).split()
        self.assertEqual(said, [*MACHINES, "lazy+x", *columns.PARTS, "abl_one",
                                "lazy+x", "one", "lazy+x"])

    def test_menu_has_the_same_columns(self):
        menu = with_rows(MORE, lambda table: shell(f"'{MENU}'", COLUMNS_TABLE=table))
        self.assertIn(f'set columns="{" ".join(MACHINES)} lazy+x"\n', menu)
        self.assertIn(f'set column_parts="{" ".join(columns.PARTS)} abl_one"\n', menu)
        row = menu.split('"$1" = lazy+x ]')[1].split("elif")[0]
        self.assertIn('column_title="PMUvisor, lazily"', row)
        self.assertIn('column_options="policy=msr unblock=lazy"', row)
        self.assertIn('column_measured="policy=msr unblock=lazy bookkeeping=all apic=pass ', row)
        part = menu.split('"$1" = abl_one ]')[1]
        self.assertIn('column_record="policy=msr/unblock=lazy/bookkeeping=lost/apic=pass/', part)
        # Without PMUvisor there are none of its options.
        self.assertNotIn("options", menu.split('"$1" = kvm ]')[1].split("elif")[0])

    def test_bad_rows(self):
        for row in ("msr pmuvisor policy=msr twice\n", "x pmuvisor policy=msr\n",
                    "x nowhere - where\n", "a/b machine - a path\n", "abl_x none tick=0\n",
                    "abl_x msr tick=0 with a title\n", "abl_all msr+nmi tick=0\n"):
            with self.assertRaises(ValueError, msg=row):
                with_rows(row, columns.read)

    def test_dictionaries_know_their_columns(self):
        keys = {name for table in ("1", "2", "3", "4", "5", "6")
                for name in getattr(published, f"TABLE_4_{table}_COLUMNS")}
        keys |= set(tables.HOLDS_FOR) | {what[0] for what in plan.VARIANTS.values()}
        self.assertLessEqual(keys, set(columns.NAMES))
        self.assertEqual(set(plots.COLUMN_COLOURS), set(columns.NAMES))
        self.assertEqual({name for name, _ in more_tables.VARIANTS}, set(plan.VARIANTS))
