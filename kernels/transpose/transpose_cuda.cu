// transpose on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/transpose/transpose.h"
#include "kernels/transpose/transpose_kernels.h"

namespace carillon {

void transpose_cuda(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& stream) {
  const TransposeAxes places = transpose_axes(x.shape, axes);
  const TransposeAxis& last = places.at[places.count - 1];
  with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<T>(last.stride == 1 ? last.extent : 1, [&]<int n>(std::integral_constant<int, n>) {
      const Transpose<T, n> kernel{places, x.shape.elements_per_sample(), static_cast<const T*>(x.data),
                                   static_cast<T*>(y.data)};
      launch(ForEachElement{kernel, y.shape.element_count() / n}, stream);
    });
  });
}

}  // namespace carillon
