// SwitchedOff: switches off GPU optimisations while the object exists (src/device/cuda_backend.h).
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace carillon::testing {

class SwitchedOff {
 public:
  /// `names`: the value of CARILLON_GPU_OFF. An empty text switches all optimisations on, also those in
  /// `off_by_default`.
  explicit SwitchedOff(const char* names) {
    if (const char* const value = std::getenv(variable)) before_ = value;
    ::setenv(variable, names, 1);
  }
  ~SwitchedOff() {
    if (before_) {
      ::setenv(variable, before_->c_str(), 1);
    } else {
      ::unsetenv(variable);
    }
  }
  SwitchedOff(const SwitchedOff&) = delete;
  SwitchedOff& operator=(const SwitchedOff&) = delete;

 private:
  static constexpr const char* variable = "CARILLON_GPU_OFF";
  std::optional<std::string> before_;
};

}  // namespace carillon::testing
