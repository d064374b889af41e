#include "carillon/core/version.h"

#include <fmt/format.h>

#include "carillon_sources.h"

namespace carillon {

std::string version_line(std::string_view program) {
  constexpr std::string_view sources = CARILLON_SOURCES;
  return fmt::format("{} (Carillon) {}{}{}", program, CARILLON_VERSION, sources.empty() ? "" : ", commit ", sources);
}

std::string dotted(int major, int minor, int patch) { return fmt::format("{}.{}.{}", major, minor, patch); }

}  // namespace carillon
