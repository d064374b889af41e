// Handle: sole owner of a foreign resource (descriptor, HDF5 id, MPI communicator, CUDA object).
#pragma once

#include <utility>

namespace carillon {

/// Move-only owner of a `T`; `destroy(value)` runs once, unless the value is `empty`.
template <typename T, auto destroy, T empty = T{}>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) noexcept : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, empty)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (value_ != empty) static_cast<void>(destroy(value_));
  }

  T get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != empty; }
  /// Transfers ownership of the resource to the caller.
  [[nodiscard]] T release() noexcept { return std::exchange(value_, empty); }

 private:
  T value_ = empty;
};

}  // namespace carillon
