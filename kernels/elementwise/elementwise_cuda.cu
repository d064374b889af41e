#include "kernels/elementwise/elementwise_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {

void map_cuda(const ElementwiseMap& map, Stream& stream) {
  const std::int64_t count = map.y.shape.element_count();
  with_float_type(map.y.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<T>(count, [&]<int n>(std::integral_constant<int, n>) {
      with_function(map.function, [&](const auto& function) {
        auto functor = functor_for<T>(function);
        const MapPack<T, n, decltype(functor)> kernel{functor, static_cast<const T*>(map.a.data),
                                                      static_cast<const T*>(map.b.data), static_cast<T*>(map.y.data)};
        launch(ForEachElement{kernel, count / n}, stream);
      });
    });
  });
}

}  // namespace carillon
