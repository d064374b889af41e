// Sums on a GPU: GradientSums of bias_relu_backward, and the binary trees of tree_sum.h.
#include "kernels/shared/float_type.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/launch.cuh"
#include "kernels/shared/tree_sum.h"

namespace carillon {
namespace {

/// Calls body(kernel) with the kernel for the tensors.
template <typename Body>
void with_kernel(const Tensor& y, const Tensor& dy, const Tensor& db, const Body& body) {
  with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
    const std::int64_t columns = db.shape[0];
    with_pack_size<T>(columns, [&]<int n>(std::integral_constant<int, n>) {
      const std::int64_t rows = dy.shape.element_count() / columns;
      const auto kernel_with = [&]<typename F>(F function) {
        T* const gradient = static_cast<T*>(dy.data);
        body(divided(GradientSums<T, n, F>{.function = function,
                                           .read = static_cast<const T*>(y.data),
                                           .dy = gradient,
                                           .dz = gradient,
                                           .db = static_cast<float*>(db.data),
                                           .rows = rows,
                                           .columns = columns}));
      };
      if (y) return kernel_with(ReluMask{});
      kernel_with(NoActivation{});
    });
  });
}

}  // namespace

BiasReluBackwardCuda::BiasReluBackwardCuda(Device& device, const Tensor& y, const Tensor& dy, const Tensor& db)
    : y_(y), dy_(dy), db_(db) {
  check(!y || y.type == dy.type, "y and dy of bias_relu_backward have different types");
  with_kernel(y, dy, db, [&](const auto& kernel) { memory_.allocate(device, kernel); });
}

void BiasReluBackwardCuda::run(Stream& stream) {
  with_kernel(y_, dy_, db_, [&](const auto& kernel) { launch(memory_.attached(kernel), stream); });
}

void add_tree_leaf_cuda(const AddTreeLeaf& leaf, Stream& stream) { launch(ForEachElement{leaf, leaf.count}, stream); }

void sum_ranks_as_tree_cuda(const SumRanksAsTree& sum, Stream& stream) {
  launch(ForEachElement{sum, sum.count}, stream);
}

}  // namespace carillon
