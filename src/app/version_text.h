// What --version prints.
#pragma once

#include <string>

namespace carillon {

/// Lines of the program's version and the libraries'.
std::string version_text(const std::string& program);

}  // namespace carillon
