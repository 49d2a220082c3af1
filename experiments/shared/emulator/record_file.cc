// SPDX-License-Identifier: BSD-2-Clause
//
// Begins the file with its magic, and appends records.
#include "record_file.h"

#include <cstdlib>

void RecordFile::append(const std::string &path, const void *record, size_t bytes)
{
    bool good = true;

    if (!file_) {
        file_ = std::fopen(path.c_str(), "wb");
        good = file_ && std::fputs(magic_, file_) >= 0;
    }
    if (good && std::fwrite(record, bytes, 1, file_) == 1)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write %s\n", path.c_str(), what_);
    std::exit(EXIT_FAILURE);
}
