// The C++ type of activations that are known by their DType.
#pragma once

#include <type_traits>

#include "carillon/core/error.h"
#include "carillon/core/tensor.h"
#include "src/core/bf16.h"

namespace carillon {

/// body(std::type_identity<T>{}) with T the type of a float tensor's elements: float or Bf16.
template <typename Body>
auto with_float_type(DType type, const Body& body) {
  if (type == DType::bf16) return body(std::type_identity<Bf16>{});
  check(type == DType::f32, "activations are f32 or bf16");
  return body(std::type_identity<float>{});
}

}  // namespace carillon
