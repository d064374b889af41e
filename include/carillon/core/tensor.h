// Tensor: a shaped, typed view of memory that another object owns. Row-major, no strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace carillon {

enum class DType : std::uint8_t { f32, u8, bf16, i32 };

/// Bytes of one element.
std::size_t size_of(DType type);

/// Extents, outermost first: {batch, height, width, channels} or {in, out}. Empty: a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  std::size_t rank() const { return extents_.size(); }
  std::int64_t operator[](std::size_t axis) const { return extents_.at(axis); }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t element_count() const;
  /// Elements per sample: the product of all extents except the first.
  std::int64_t elements_per_sample() const { return element_count() / extents_.at(0); }
  /// "[100, 784]"
  std::string text() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> extents_;
};

/// Throws the error of Tensor::floats.
[[noreturn]] void refuse_floats();

struct Tensor {
  void* data = nullptr;  ///< null: the program does not need the tensor, for example the gradient of the network's
                         ///< input
  Shape shape;
  DType type = DType::f32;

  explicit operator bool() const { return data != nullptr; }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.element_count()) * size_of(type); }
  /// Returns the elements of a float32 tensor without copying them. Host code may access them only if the device is a
  /// CPU. Errors: usage (the tensor has another type, because --precision is bf16 and the op supports only float32).
  std::span<float> floats() const {
    if (type != DType::f32) refuse_floats();
    return {static_cast<float*>(data), static_cast<std::size_t>(shape.element_count())};
  }
};

}  // namespace carillon
