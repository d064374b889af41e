// pad and slice on a GPU.
#include "kernels/pad/pad.h"
#include "kernels/pad/pad_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {

void pad_cuda(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& stream) {
  with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
    const PadForward<T> kernel{axes,
                               x.shape.elements_per_sample(),
                               y.shape.elements_per_sample(),
                               stored_as<T>(value),
                               static_cast<const T*>(x.data),
                               static_cast<T*>(y.data)};
    launch(ForEachElement{kernel, y.shape.element_count()}, stream);
  });
}

}  // namespace carillon
