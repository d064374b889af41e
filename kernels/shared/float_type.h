// Activations are float32 or bf16: with_float_type maps their DType to a C++ type, and ElementPointer points to
// activations of a CPU op.
#pragma once

#include <cstddef>
#include <type_traits>

#include "carillon/core/error.h"
#include "carillon/core/tensor.h"
#include "src/core/bf16.h"

namespace carillon {

/// Calls body(std::type_identity<T>{}). T is float or Bf16. The function is inlined, so that the compiler vectorises
/// `body` in CARILLON_SIMD callers.
template <typename Body>
[[gnu::always_inline]] inline auto with_float_type(DType type, const Body& body) {
  if (type == DType::bf16) return body(std::type_identity<Bf16>{});
  check(type == DType::f32, "activations are f32 or bf16");
  return body(std::type_identity<float>{});
}

/// The address of some activations in host memory, or null.
class ElementPointer {
 public:
  ElementPointer() = default;
  ElementPointer(const Tensor& tensor) : data_(static_cast<std::byte*>(tensor.data)), type_(tensor.type) {}
  ElementPointer(float* data) : data_(reinterpret_cast<std::byte*>(data)) {}

  DType type() const { return type_; }
  explicit operator bool() const { return data_ != nullptr; }
  /// `T` must be the type of the elements.
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  /// Returns the pointer to the element that is `count` elements later. A null pointer stays null.
  ElementPointer operator+(std::size_t count) const {
    ElementPointer moved = *this;
    if (data_ != nullptr) moved.data_ += count * (type_ == DType::bf16 ? sizeof(Bf16) : sizeof(float));
    return moved;
  }

 private:
  std::byte* data_ = nullptr;
  DType type_ = DType::f32;
};

/// Returns the address of sample `n` of a batch.
inline ElementPointer sample_of(const Tensor& batch, std::int64_t n) {
  return ElementPointer(batch) + static_cast<std::size_t>(n * batch.shape.elements_per_sample());
}

}  // namespace carillon
