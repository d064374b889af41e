// with_float_type: from the DType of activations to their C++ type.
#pragma once

#include <type_traits>

#include "carillon/core/error.h"
#include "carillon/core/tensor.h"
#include "src/core/bf16.h"

namespace carillon {

/// Calls body(std::type_identity<T>{}), where T is float or Bf16. Inlined, so that CARILLON_SIMD callers vectorise it.
template <typename Body>
[[gnu::always_inline]] inline auto with_float_type(DType type, const Body& body) {
  if (type == DType::bf16) return body(std::type_identity<Bf16>{});
  check(type == DType::f32, "activations are f32 or bf16");
  return body(std::type_identity<float>{});
}

}  // namespace carillon
