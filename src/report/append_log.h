// AppendLog: a log file that whole entries are appended to, and that never stops the run it logs.
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
  /// Errors of opening and writing go to `warn`, the first of them only.
  AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn);

  /// Opens the file, making it where it is missing; with `exclusive` it must not exist. Returns 0 or errno, without a
  /// warning for EEXIST.
  int open(bool exclusive);

  /// Appends `bytes` in one write; true when they are in the file. On an error nothing of them stays there; a later
  /// append is tried again.
  bool append(std::string_view bytes);

  /// Tells `warn`, unless it has been told before.
  void warn(const std::string& cause);

 private:
  void warn(std::string_view action, int error);

  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  Descriptor descriptor_;
};

}  // namespace carillon
