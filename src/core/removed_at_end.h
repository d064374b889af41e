// RemovedAtEnd: removes a file or a folder with its contents at the end of a scope, also after an error.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace carillon {

class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  std::filesystem::path path_;
};

}  // namespace carillon
