#include "carillon/core/parallel.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

template <typename F, typename T>
[[gnu::always_inline]] inline void map_elements(F function, const T* a, const T* b, std::size_t count, T* y) {
  if constexpr (is_unary<F>) {
    for (std::size_t i = 0; i < count; ++i) y[i] = stored_as<T>(function(to_float(a[i])));
  } else {
    for (std::size_t i = 0; i < count; ++i) y[i] = stored_as<T>(function(to_float(a[i]), to_float(b[i])));
  }
}

CARILLON_SIMD void map_range(const ElementwiseFunction& function, ElementPointer a, ElementPointer b, std::size_t count,
                             ElementPointer y) {
  with_float_type(
      y.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        with_function(
            function, [&](const auto& f) __attribute__((always_inline)) {
              map_elements(f, a.as<const T>(), b.as<const T>(), count, y.as<T>());
            });
      });
}

}  // namespace

void map_cpu(const ElementwiseMap& map) {
  const bool is_expensive = std::visit([](const auto& f) { return f.is_expensive; }, map.function);
  const ElementPointer a(map.a), b(map.b), y(map.y);
  parallel_ranges(static_cast<std::size_t>(map.y.shape.element_count()),
                  is_expensive ? elementwise_grain / 4 : elementwise_grain, [&](std::size_t begin, std::size_t end) {
                    map_range(map.function, a + begin, b + begin, end - begin, y + begin);
                  });
}

}  // namespace carillon
