// AppendLog: a log file to which whole entries are appended. Its errors never stop the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "carillon/core/file.h"

namespace carillon {

class AppendLog {
 public:
  /// `warn` is called with the first error of opening or writing.
  AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn);

  /// Opens the file, and creates it if it is missing. With `exclusive`, the file must be missing. Returns 0 or errno.
  /// EEXIST causes no warning.
  int open(bool exclusive);

  /// Appends `bytes` in one write. Returns true if they are in the file. After an error, none of the bytes remain in
  /// the file, and the next append tries to write its own bytes.
  bool append(std::string_view bytes);

  /// The first call passes the cause to `warn`; later calls do nothing.
  void warn(const std::string& cause);

 private:
  void warn(std::string_view action, int error);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  Descriptor descriptor_;
};

}  // namespace carillon
