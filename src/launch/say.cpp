#include "src/launch/say.h"

#include <fmt/format.h>

#include <cstdio>

#include "src/core/text.h"

namespace carillon {

void say(const std::string& line) {
  fmt::print("carillon: {}\n", printable(line, line.size()));
  std::fflush(stdout);
}

}  // namespace carillon
