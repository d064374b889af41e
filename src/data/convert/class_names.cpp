#include "src/data/convert/class_names.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/core/printable.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

void ClassCheck::require(const std::string& name, const std::string& where) const {
  if (names_.empty() || names_.contains(name)) return;
  fail(ExitCode::data, "{}: the class '{}' is not among the {} of {}", where, printable(name), names_.size(), source_);
}

std::vector<std::string> classes_of(std::vector<std::string> found, const KnownClasses& known) {
  std::vector<std::string> classes = known.names;
  if (classes.empty()) {
    classes = std::move(found);
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  }
  if (classes.size() > max_classes) {
    fail(ExitCode::data, "{} classes exceed the limit of {}", classes.size(), max_classes);
  }
  for (const std::string& name : classes) {
    if (is_line(name) && name.size() <= max_line_bytes) continue;
    fail(ExitCode::data,
         "the name of the class '{}' must be UTF-8 of at most {} bytes, without control characters: rename it",
         printable(name), max_line_bytes);
  }
  return classes;
}

}  // namespace carillon
