// SPDX-License-Identifier: BSD-2-Clause
//
// The guest's files. Nothing is buffered across the end of the run: machine_end() flushes all
// streams.
#include "guest_files.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/stat.h>

namespace {

// By their paths, from the first piece of each on.
std::map<std::string, FILE *> files;

bool allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

FILE *open_file(const std::string &folder, const std::string &path)
{
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
        return nullptr;
    return std::fopen(path.c_str(), "wb");
}

}  // namespace

bool guest_file_name_good(const std::string &name)
{
    if (name.empty() || name.size() > GUEST_FILE_NAME_MAX || name == "." || name == "..")
        return false;
    for (char c : name)
        if (!allowed(c))
            return false;
    return true;
}

void guest_file_ignore(const std::string &name, const char *why)
{
    std::string text = name;

    for (char &c : text)
        if (!std::isprint(static_cast<unsigned char>(c)))
            c = '?';
    std::fprintf(stderr, "testbed: ignored: the guest's file '%s': %s\n", text.c_str(), why);
}

void guest_file_take(const std::string &folder, const std::string &name, const void *data,
                     size_t size)
{
    if (!guest_file_name_good(name)) {
        guest_file_ignore(name, "wanted 1 to 32 of A-Z, a-z, 0-9, '.', '_' and '-'");
        return;
    }
    const std::string path = folder + "/" + name;
    FILE *&file = files[path];
    if (!file)
        file = open_file(folder, path);
    if (file && std::fwrite(data, 1, size, file) == size)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write it: %s\n", path.c_str(), std::strerror(errno));
    std::exit(EXIT_FAILURE);
}
