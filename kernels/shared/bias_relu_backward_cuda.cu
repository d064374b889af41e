#include "kernels/shared/bias_relu_backward_cuda.h"
#include "kernels/shared/bias_relu_backward_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

/// body(kernel) with the kernel for y and dy. Its `sums` is null.
template <typename Body>
void with_kernel(const Tensor& y, const Tensor& dy, std::int64_t columns, const Body& body) {
  with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<T>(columns, [&]<int n>(std::integral_constant<int, n>) {
      const std::int64_t rows = dy.shape.element_count() / columns;
      T* const gradient = static_cast<T*>(dy.data);
      if (y) {
        body(column_sums<T, n, true>(static_cast<const T*>(y.data), gradient, nullptr, rows, columns));
      } else {
        body(column_sums<T, n, false>(nullptr, gradient, nullptr, rows, columns));
      }
    });
  });
}

}  // namespace

BiasReluBackwardCuda::BiasReluBackwardCuda(Device& device, const Tensor& y, const Tensor& dy, const Tensor& db)
    : y_(y), dy_(dy), db_(db) {
  check(!y || y.type == dy.type, "y and dy of bias_relu_backward have different types");
  const std::int64_t columns = db.shape[0];
  with_kernel(y, dy, columns, [&](const auto& kernel) {
    if (kernel.row_blocks() < 2) return;
    block_sums_ = device.allocate(static_cast<std::size_t>(kernel.row_blocks() * columns) * sizeof(float));
  });
}

void BiasReluBackwardCuda::run(Stream& stream) {
  const std::int64_t columns = db_.shape[0];
  float* const db = static_cast<float*>(db_.data);
  float* const block_sums = static_cast<float*>(block_sums_.data());
  with_kernel(y_, dy_, columns, [&](auto kernel) {
    kernel.sums = block_sums != nullptr ? block_sums : db;
    launch(kernel, stream);
    if (block_sums != nullptr) launch(sum_of_blocks(block_sums, db, kernel.row_blocks(), columns), stream);
  });
}

}  // namespace carillon
