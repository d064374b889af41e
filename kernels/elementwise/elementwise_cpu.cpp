#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/float_type.h"

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
              map_elements(functor_for<T>(f), a.as<const T>(), b.as<const T>(), count, y.as<T>());
            });
      });
}

}  // namespace

void map_cpu(std::span<const ElementwiseMap> maps) {
  constexpr std::size_t block = 8192;  // number of elements that stay in the second-level cache
  const auto is_expensive = [](const ElementwiseMap& map) {
    return std::visit([](const auto& f) { return f.is_expensive; }, map.function);
  };
  if (maps.empty()) return;
  const std::size_t grain = std::ranges::any_of(maps, is_expensive) ? elementwise_grain / 4 : elementwise_grain;
  parallel_ranges(static_cast<std::size_t>(maps.front().y.shape.element_count()), grain,
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t at = begin; at < end; at += block) {
                      for (const ElementwiseMap& map : maps) {
                        map_range(map.function, ElementPointer(map.a) + at, ElementPointer(map.b) + at,
                                  std::min(block, end - at), ElementPointer(map.y) + at);
                      }
                    }
                  });
}

}  // namespace carillon
