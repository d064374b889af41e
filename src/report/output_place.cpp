#include "src/report/output_place.h"

#include <fmt/format.h>

#include "carillon/core/error.h"
#include "carillon/core/file.h"

namespace carillon {

void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending) {
  if (!ending.empty() && path.extension() != ending) {
    fail(ExitCode::usage, "--{} {}: the name of the file must end in {}", option, path.string(), ending);
  }
  try {
    check_output(path);
  } catch (const Error& error) {
    fail(error.code(), "--{} {}", option, error.what());
  }
}

}  // namespace carillon
