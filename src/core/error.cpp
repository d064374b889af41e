#include "carillon/core/error.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace carillon {

void print_text(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string errno_text(int number) { return std::generic_category().message(number); }

}  // namespace carillon
