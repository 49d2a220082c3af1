# SPDX-License-Identifier: BSD-2-Clause
# test_layers.py: calls between the hypervisor's folders go down, and layers.py sees one that does
# not, a loop of files, and a table's row.
import os
import re
import subprocess
import sys

from testbed.machine import TOP, path
from tests.static import layers


def test_hypervisor():
    """The hypervisor itself: nothing goes back up, no loop that is longer than its folder may
    have."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.static.layers", "build"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def compiled(folder, sources):
    """The graph of a small tree {name: text}."""
    for name, text in sources.items():
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="ascii") as out:
            out.write(text)
        subprocess.run(["gcc", "-O2", "-c", "-o", name[:-2] + ".o", name], cwd=folder, check=True)
    return layers.graph(folder, ["high", "low"], folder)[1]


def test_back_up(tmp_path):
    """A call to a folder further up is found, with the functions that it is between."""
    edges = compiled(
        tmp_path,
        {
            "high/a.c": "void g(void); void f(void) { g(); }",
            "low/b.c": "void f(void); void g(void) { f(); f(); }",
        },
    )
    assert layers.back_up(edges, ["high", "low"]) == ["low/b.c uses high/a.c: g -> f"]
    assert layers.back_up(edges, ["low", "high"]) == ["high/a.c uses low/b.c: f -> g"]


def test_table(tmp_path):
    """So is a function that a table names."""
    edges = compiled(
        tmp_path,
        {"high/a.c": "void f(void) { }", "low/b.c": "void f(void); void (*const t[])(void) = {f};"},
    )
    assert layers.back_up(edges, ["high", "low"]) == ["low/b.c uses high/a.c: table -> f"]


def test_loop(tmp_path):
    """Files that call each other in a ring are one loop."""
    following = {n: (n + 1) % 5 for n in range(5)}
    ring = {
        f"low/{n}.c": f"void f{other}(void); void f{n}(void) {{ f{other}(); f{n}(); }}"
        for n, other in following.items()
    }
    edges = compiled(tmp_path, {**ring, "high/a.c": "void f0(void); void g(void) { f0(); }"})
    assert layers.loops(edges) == [[f"low/{n}.c" for n in range(5)]]


def test_loop_limit():
    """Each folder has its own limit; nmi/ has no loop, not even of two files."""
    four = [f"vmx/root/{n}.c" for n in range(4)]
    assert not list(layers.too_long([four]))
    assert list(layers.too_long([[*four, "vmx/root/5.c"]]))
    for loop in (["nmi/bookkeeping.c", "nmi/nmi.c"], ["nmi/bookkeeping.c", "vmx/root/end.c"]):
        assert list(layers.too_long([loop])) == [(loop, 1)]


def folders_included(name, text):
    """What a header of include/ includes from a folder."""
    return [
        f"include/{name} includes {found}"
        for found in re.findall(r'^#include "([^"]*/[^"]*)"', text, re.MULTILINE)
    ]


def test_include():
    """include/ is below every folder: its headers include each other, and no folder's."""
    headers = {
        name: read(path("include", name))
        for name in os.listdir(path("include"))
        if name.endswith(".h")
    }
    assert len(headers) > 5
    assert not [line for name, text in headers.items() for line in folders_included(name, text)]
    assert folders_included("a.h", '#include "b.h"\n#include "vmx/vmcs.h"\n') == [
        "include/a.h includes vmx/vmcs.h"
    ]
