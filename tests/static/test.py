#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# test.py: tests of the checks in this folder, each on input that it has to refuse as well as on
# input that it has to take. One line per test: "ok NAME" or "FAIL NAME: reason".
import contextlib
import io
import os
import sys
import tempfile
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import lines  # noqa: E402


def run(module, *arguments):
    """Runs a check's main(); gives its exit status and all that it printed."""
    output = io.StringIO()
    with mock.patch.object(sys, "argv", [module.__name__, *arguments]), \
            contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = module.main()
    return status, output.getvalue()


def test_lines_c():
    text = ('/* first\n * second */ int a;\n\n// gone\nchar *s = "/* not // a comment";\n'
            "char c = '\"'; /* it's one */\n  \t\nint b; // end\n")
    assert lines.code_lines(text, False) == 4, lines.without_comments(text, False)


def test_lines_nasm():
    text = "; head\nbits 64\n\n  mov al, ';' ; a semicolon\n%define X \"it's;\"\n;mov\n ret;\n"
    assert lines.code_lines(text, True) == 4, lines.without_comments(text, True)


def test_lines_limit():
    """The whole tree is counted, and one line above the limit is refused."""
    with tempfile.TemporaryDirectory() as root:
        for folder in lines.LIMITED + lines.BESIDE:
            os.mkdir(os.path.join(root, folder))
            with open(os.path.join(root, folder, "a.c"), "w", encoding="utf-8") as source:
                source.write("/* a */\nint a;\nint b;\n")
        count = 2 * len(lines.LIMITED)
        assert run(lines, "--max", str(count), root)[0] == 0
        status, text = run(lines, "--max", str(count - 1), root)
        assert status == 1 and f"has {count} lines of code, wanted at most {count - 1}" in text, text
        os.unlink(os.path.join(root, "mm", "a.c"))
        status, text = run(lines, root)
        assert status == 1 and "no code in mm" in text, text


def main():
    failed = False
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                test()
                print(f"ok {name[5:]}")
            except AssertionError as trouble:
                failed = True
                print(f"FAIL {name[5:]}: {trouble}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
