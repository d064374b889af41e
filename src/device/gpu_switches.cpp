#include "src/device/gpu_switches.h"

#include <cstdlib>

namespace carillon {

bool is_switched_off(std::string_view name) {
  const char* const variable = std::getenv("CARILLON_GPU_OFF");
  for (std::string_view names = variable == nullptr ? off_by_default : variable; !names.empty();) {
    const std::size_t end = names.find(',');
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
  }
  return false;
}

}  // namespace carillon
