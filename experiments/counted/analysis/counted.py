# SPDX-License-Identifier: BSD-2-Clause
def rows(lines, regions):
    return lines
