# SPDX-License-Identifier: BSD-2-Clause
# test_border.py: nothing outside experiments/ names an experiment (border.py). Each kind of name
# that is planted in a copy of a file's text is seen, in comments too.
import pytest

from tests.static import border

PLANTED_IN = "vmx/exit/exit.c"


def one(names, why):
    if not names:
        pytest.skip(f"there is no experiment with {why}")
    return names[-1]


def planted(name):
    """What is said where this is code, and where a comment has it: the same."""
    rules, text = border.rules(), border.text_of(PLANTED_IN)
    code, comment = (
        border.complaints({PLANTED_IN: text + line}, rules)
        for line in (f"{name}\n", f"/* as {name} has it */\n")
    )
    assert code == comment
    return code


def test_nothing_outside_names_one():
    files, rules = border.outside(), border.rules()
    assert len(files) > 100 and files[PLANTED_IN]
    found = border.complaints(files, rules)
    assert not found, "\n".join(found)
    return f"{len(files)} files, {len(rules)} kinds of names, {len(border.folders())} experiments"


def test_sees_a_folder():
    name = one(border.folders(), "a folder")
    assert len(planted(f"experiments/{name}/hypervisor/x.h")) == 1
    assert not planted("experiments/*/hypervisor/x.h")
    assert not planted(f"experiments/{name}ly")


def test_sees_an_option():
    one(border.options(), "options")
    for key in border.options():
        found = planted(f"{key}=1")
        assert found and repr(f"{key}=") in found[0], found
        assert bool(planted(f"a {key} of it")) == (len(key) > border.ORDINARY)


def test_sees_a_header():
    name = one(border.headers(), "headers")
    assert len(planted(f'#include "{name}"')) == 1
    assert len(planted(f'#  include "some/where/{name}"\n')) == 1


def test_sees_a_symbol():
    name = one(border.symbols(), "code (make lab)")
    assert len(planted(f"{name}(cpu);")) == 1
    assert not planted(f"{name}s_other")
