#include "src/core/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace carillon {

void open_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
  }
}

}  // namespace carillon
