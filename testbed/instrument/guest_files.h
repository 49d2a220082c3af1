/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Files that the guest hands over, in pieces, into the folder of the knob `guest_files`. What a
 * guest says is not trusted: a name is one in that folder, or nothing is written. Format of a
 * piece: README.md, "Files of the guest". Knows no Bochs.
 */
#pragma once

#include <cstddef>
#include <string>

constexpr size_t GUEST_FILE_NAME_MAX = 32;
constexpr size_t GUEST_FILE_PIECE_MAX = 1u << 20;

/* Letters, digits, '.', '_' and '-', and neither "." nor "..". */
bool guest_file_name_good(const std::string &name);

/* Says with one line on stderr that a piece is ignored, and why. */
void guest_file_ignore(const std::string &name, const char *why);

/* A piece of the file: its run's first begins it anew, others go to its end. A name that is not
 * good is ignored. The folder is made where it is not there. */
void guest_file_take(const std::string &folder, const std::string &name, const void *data,
                     size_t size);
