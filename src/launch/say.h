// Messages of `carillon` itself, among those of the programs that it starts.
#pragma once

#include <string>

namespace carillon {

/// Prints "carillon: <line>" to stdout at once.
void say(const std::string& line);

}  // namespace carillon
