// ElementPointer: a pointer to activations of a CPU op, in float32 or bf16.
#pragma once

#include <cstddef>

#include "kernels/shared/float_type.h"

namespace carillon {

/// The address of some activations in host memory; null: none.
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
  /// The pointer to the element `count` elements later; null stays null.
  ElementPointer operator+(std::size_t count) const {
    ElementPointer moved = *this;
    if (data_ != nullptr) moved.data_ += count * (type_ == DType::bf16 ? sizeof(Bf16) : sizeof(float));
    return moved;
  }

 private:
  std::byte* data_ = nullptr;
  DType type_ = DType::f32;
};

/// Sample `n` of a batch.
inline ElementPointer sample_of(const Tensor& batch, std::int64_t n) {
  return ElementPointer(batch) + static_cast<std::size_t>(n * batch.shape.elements_per_sample());
}

}  // namespace carillon
