// File patterns: expands paths and globs (glob(3): * ? [...]) into file names.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace carillon {

/// Files in the order of `patterns`; the matches of each glob are sorted by bytes. A path that exists is never treated
/// as a glob. Errors: no_input (a pattern without a match, or no pattern).
std::vector<std::string> expand_file_patterns(std::span<const std::string> patterns);

}  // namespace carillon
