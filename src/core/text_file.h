// Text files that people and other programs write: lists, tables and configurations.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "carillon/core/error.h"

namespace carillon {

/// The text of a regular file, with lines that end in LF only. CR LF and CR become LF. A byte order mark is removed.
/// UTF-16 becomes UTF-8; without a byte order mark, UTF-16 is recognised by the zero byte of its first character. Bytes
/// that are not UTF-8 stay, because file names may contain them. Errors: as read_plain_file; `unsuitable` also for
/// invalid UTF-16 and for a NUL character, which would end a file name.
std::string read_text_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                           ExitCode unsuitable = ExitCode::data);

}  // namespace carillon
