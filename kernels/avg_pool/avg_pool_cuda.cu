// avg_pool on a GPU.
#include <algorithm>

#include "kernels/avg_pool/avg_pool.h"
#include "kernels/avg_pool/avg_pool_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/index_limit.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class AvgPoolCuda final : public Op {
 public:
  AvgPoolCuda(const AvgPoolGeometry& geometry, const OpTensors& tensors) : geometry_(geometry), tensors_(tensors) {
    check_index_limit("avg_pool", std::max(x().shape.element_count(), y().shape.element_count()));
  }

  void forward(Stream& stream) override {
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch(ForEachElement{AvgPoolForward<T, n>{.pool = packed_pool(geometry_, channels(), n),
                                                 .x = static_cast<const T*>(x().data),
                                                 .y = static_cast<T*>(y().data),
                                                 .counts_padding = geometry_.counts_padding},
                            y().shape.element_count() / n},
             stream);
    });
  }

  void backward(Stream& stream) override {
    if (!tensors_.input_gradients[0]) return;
    with_packs([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch(ForEachElement{AvgPoolBackward<T, n>{.pool = packed_pool(geometry_, channels(), n),
                                                  .dy = static_cast<const T*>(tensors_.output_gradients[0].data),
                                                  .dx = static_cast<T*>(tensors_.input_gradients[0].data),
                                                  .counts_padding = geometry_.counts_padding},
                            x().shape.element_count() / n},
             stream);
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  const Tensor& y() const { return tensors_.outputs[0]; }
  std::int64_t channels() const { return x().shape[3]; }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_packs(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(channels(), [&](auto n) { body(type, n); });
    });
  }

  AvgPoolGeometry geometry_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_avg_pool_cuda(const AvgPoolGeometry& geometry, const OpContext& /*context*/,
                                       const OpTensors& tensors) {
  return std::make_unique<AvgPoolCuda>(geometry, tensors);
}

}  // namespace carillon
