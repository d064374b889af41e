// The output of --version.
#pragma once

#include <string>

namespace carillon {

/// A line with the version of the program and one with the versions of its libraries.
std::string version_text(const std::string& program);

}  // namespace carillon
