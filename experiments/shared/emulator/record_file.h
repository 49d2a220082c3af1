/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file of records that all processors append to, each in the processor's own byte order. Nothing
 * is buffered across the end of the run: machine_end() flushes all streams. Knows no Bochs.
 */
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

class RecordFile {
public:
    /* `what` names the file in an error message; `magic` is what the file begins with. */
    RecordFile(const char *what, const char *magic) : what_(what), magic_(magic) {}
    /* The first record begins the file. A file that cannot be written ends the run. */
    void append(const std::string &path, const void *record, size_t bytes);

private:
    const char *what_, *magic_;
    FILE *file_ = nullptr;
};
