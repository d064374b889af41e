#include "kernels/shared/convert_cpu.h"

#include "carillon/core/parallel.h"

namespace carillon {

CARILLON_SIMD void read_floats(ElementPointer from, std::size_t count, float* __restrict to) {
  with_float_type(
      from.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const elements = from.as<T>();
        for (std::size_t i = 0; i < count; ++i) to[i] = to_float(elements[i]);
      });
}

CARILLON_SIMD void write_floats(const float* __restrict from, std::size_t count, ElementPointer to) {
  with_float_type(
      to.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        T* const elements = to.as<T>();
        for (std::size_t i = 0; i < count; ++i) elements[i] = stored_as<T>(from[i]);
      });
}

}  // namespace carillon
