#include "src/launch/say.h"

#include <fmt/format.h>

#include <cstdio>

namespace carillon {

void say(const std::string& line) {
  fmt::print("carillon: {}\n", line);
  std::fflush(stdout);
}

}  // namespace carillon
