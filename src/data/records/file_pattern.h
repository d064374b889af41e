// File patterns: the files that paths and globs (glob(3): * ? [...]) name.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace carillon {

/// The files in the order in which `patterns` name them, each glob's matches sorted by bytes. A path that exists is
/// taken as it is, whatever characters it has. Errors: no_input for a pattern without a match, or no pattern at all.
std::vector<std::string> expand_file_patterns(std::span<const std::string> patterns);

}  // namespace carillon
