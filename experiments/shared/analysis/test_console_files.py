# SPDX-License-Identifier: BSD-2-Clause
# test_console_files.py: files that come over a guest's console: by the guest's own code, compiled
# for this machine; and what is damaged is refused.
import os
import pathlib
import subprocess

import pytest

from experiments.shared.analysis.console_files import BadFile, files

GUEST = pathlib.Path(__file__).parents[1] / "guest"
MAIN = """#include "print_file.h"
int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (!print_file(argv[i], argv[i + 1]))
            return 1;
    return 0;
}
"""


@pytest.fixture(scope="module", name="printer")
def make_printer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("printer")
    (folder / "main.c").write_text(MAIN)
    subprocess.run(
        [
            "gcc",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=address,undefined",
            "-I",
            GUEST,
            "-o",
            folder / "printer",
            folder / "main.c",
            GUEST / "print_file.c",
        ],
        check=True,
    )
    return folder / "printer"


def printed(printer, tmp_path, **contents):
    words = []
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
        words += [name, tmp_path / name]
    return subprocess.run([printer, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def test_each_length(printer, tmp_path):
    """All ends of a line and of base64's groups; the console's ends of lines, and words around."""
    for length in (0, 1, 2, 3, 53, 54, 55, 56, 5000):
        data = os.urandom(length)
        text = printed(printer, tmp_path, one=data, two=b"names")
        console = "init: begins\n" + text + "init: ends\n"
        assert files(console.replace("\n", "\r\n")) == {"one": data, "two": b"names"}


def test_damage_is_refused(printer, tmp_path):
    """A line lost, a kernel's message between, the end cut off: each is said, none is guessed."""
    lines = printed(printer, tmp_path, one=os.urandom(500)).splitlines()
    assert list(files("\n".join(lines))) == ["one"]
    for damaged, words in (
        (lines[:3] + lines[4:], "the guest printed 500"),
        (lines[:3] + ["[ 1.0] usb: a message"] + lines[3:], "not base64"),
        (lines[:-1], "its end is not on the console"),
    ):
        with pytest.raises(BadFile, match=words):
            files("\n".join(damaged))


def test_missing_file(printer, tmp_path):
    done = subprocess.run(
        [printer, "one", tmp_path / "none"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 1 and "No such file" in done.stdout
    with pytest.raises(BadFile):
        files(done.stdout)
