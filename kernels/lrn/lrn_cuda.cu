// lrn on a GPU: one kernel in forward and one in backward. The backward kernel computes s again from x.
#include "kernels/lrn/lrn.h"
#include "kernels/lrn/lrn_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class LrnCuda final : public Op {
 public:
  LrnCuda(const LrnParams& params, const OpTensors& tensors)
      : params_(params), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    with_form([&]<typename T>(std::type_identity<T>, auto n, auto) {
      if (cut(n).owned == 0) {
        fail(ExitCode::failed, "lrn on a GPU: a depth_radius of {} over {} channels is too large", params_.depth_radius,
             channels());
      }
    });
    if (tensors.output_gradients.empty()) return;
    dy_ = tensors.output_gradients.at(0);
    dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& stream) override {
    with_form([&]<typename T, int n, bool three_quarters>(std::type_identity<T>, std::integral_constant<int, n>,
                                                          std::bool_constant<three_quarters>) {
      launch(LrnForward<T, n, three_quarters>{{cut(n), params_.bias, params_.alpha, params_.beta},
                                              static_cast<const T*>(x_.data),
                                              static_cast<T*>(y_.data)},
             stream);
    });
  }

  void backward(Stream& stream) override {
    if (!dx_) return;
    with_form([&]<typename T, int n, bool three_quarters>(std::type_identity<T>, std::integral_constant<int, n>,
                                                          std::bool_constant<three_quarters>) {
      launch(LrnBackward<T, n, three_quarters>{{cut(n), params_.bias, params_.alpha, params_.beta},
                                               static_cast<const T*>(x_.data),
                                               static_cast<const T*>(dy_.data),
                                               static_cast<T*>(dx_.data)},
             stream);
    });
  }

 private:
  std::int64_t channels() const { return x_.shape.extents().back(); }
  LrnCut cut(int pack_size) const {
    return lrn_cut(x_.shape.element_count(), channels(), params_.depth_radius, pack_size);
  }

  /// Calls body(type of the elements, elements per pack, whether beta is 0.75).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x_.type, [&](auto type) {
      with_lrn_form(params_, channels(), [&](auto n, auto three_quarters) { body(type, n, three_quarters); });
    });
  }

  LrnParams params_;
  Tensor x_, y_, dx_, dy_;
};

}  // namespace

std::unique_ptr<Op> make_lrn_cuda(const LrnParams& params, const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<LrnCuda>(params, tensors);
}

}  // namespace carillon
