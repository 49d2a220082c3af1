# SPDX-License-Identifier: BSD-2-Clause
# command_line.py: the command line that the programs share which turn a trace into another form.
import argparse


def parser(text, out):
    """Takes the program's description and what its output is called, as FILE. Gives an argparse
    parser with the options `trace`, `out` and `names`."""
    made = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("trace", metavar="TRACE")
    made.add_argument("out", metavar=out)
    made.add_argument("--names", metavar="FILE", help="what 'flowtrace names' wrote")
    return made
