#include "carillon/core/parallel.h"
#include "kernels/elementwise/elementwise_map.h"

namespace carillon {
namespace {

template <typename F>
[[gnu::always_inline]] inline void map_elements(F function, const float* a, const float* b, std::size_t count,
                                                float* y) {
  if constexpr (is_unary<F>) {
    for (std::size_t i = 0; i < count; ++i) y[i] = function(a[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) y[i] = function(a[i], b[i]);
  }
}

CARILLON_SIMD void map_range(const ElementwiseFunction& function, const float* a, const float* b, std::size_t count,
                             float* y) {
  with_function(
      function, [=](const auto& f) __attribute__((always_inline)) { map_elements(f, a, b, count, y); });
}

}  // namespace

void map_cpu(const ElementwiseMap& map) {
  const bool is_expensive = std::visit([](const auto& f) { return f.is_expensive; }, map.function);
  const float* const a = map.a.floats().data();
  const float* const b = static_cast<const float*>(map.b.data);
  float* const y = map.y.floats().data();
  parallel_ranges(map.y.floats().size(), is_expensive ? elementwise_grain / 4 : elementwise_grain,
                  [&](std::size_t begin, std::size_t end) {
                    map_range(map.function, a + begin, b == nullptr ? nullptr : b + begin, end - begin, y + begin);
                  });
}

}  // namespace carillon
