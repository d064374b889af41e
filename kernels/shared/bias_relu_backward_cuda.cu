#include "kernels/shared/bias_relu_backward_cuda.h"
#include "kernels/shared/bias_relu_backward_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

/// Calls body(kernel) with the kernel for the tensors.
template <typename Body>
void with_kernel(const Tensor& y, const Tensor& dy, const Tensor& db, const Body& body) {
  with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
    const std::int64_t columns = db.shape[0];
    with_pack_size<T>(columns, [&]<int n>(std::integral_constant<int, n>) {
      const std::int64_t rows = dy.shape.element_count() / columns;
      T* const gradient = static_cast<T*>(dy.data);
      if (y) {
        body(column_sums<T, n, true>(static_cast<const T*>(y.data), gradient, static_cast<float*>(db.data), rows,
                                     columns));
      } else {
        body(column_sums<T, n, false>(nullptr, gradient, static_cast<float*>(db.data), rows, columns));
      }
    });
  });
}

}  // namespace

BiasReluBackwardCuda::BiasReluBackwardCuda(Device& device, const Tensor& y, const Tensor& dy, const Tensor& db)
    : y_(y), dy_(dy), db_(db) {
  check(!y || y.type == dy.type, "y and dy of bias_relu_backward have different types");
  with_kernel(y, dy, db, [&](const auto& kernel) {
    if (kernel.row_blocks() < 2) return;
    block_sums_ = device.allocate(static_cast<std::size_t>(kernel.row_blocks() * kernel.columns) * sizeof(float));
    blocks_done_ = device.allocate(static_cast<std::size_t>(kernel.column_blocks()) * sizeof(std::uint32_t));
  });
}

void BiasReluBackwardCuda::run(Stream& stream) {
  with_kernel(y_, dy_, db_, [&](auto kernel) {
    kernel.block_sums = static_cast<float*>(block_sums_.data());
    kernel.blocks_done = static_cast<std::uint32_t*>(blocks_done_.data());
    launch(kernel, stream);
  });
}

}  // namespace carillon
