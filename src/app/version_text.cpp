#include "src/app/version_text.h"

#include <fmt/format.h>

#include "carillon/device/device.h"
#include "src/checkpoint/checkpoint.h"
#include "src/comm/mpi/mpi.h"
#include "src/core/has_cuda.h"

namespace carillon {

std::string version_text(const std::string& program) {
  std::vector<LibraryVersion> libraries = comm_libraries();
  for (LibraryVersion& library : device_libraries()) libraries.push_back(std::move(library));
  libraries.push_back(checkpoint_library());
  std::string text = version_line(program);
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "\n" : ", ", libraries[i].name, libraries[i].version);
  }
  return text + (has_cuda ? "\n" : "; without CUDA\n");
}

}  // namespace carillon
