// attention on a GPU: one kernel forward, and one each for dq, dk and dv.
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class AttentionCuda final : public Op {
 public:
  AttentionCuda(const AttentionParams& params, const OpContext& context, const OpTensors& tensors)
      : shape_(tensors.outputs.at(0).shape, params), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (shape_.head_size() > attention_most_channels) {
      fail(ExitCode::failed, "attention on a GPU: heads of {} channels have more than {}", shape_.head_size(),
           attention_most_channels);
    }
    check(shape_.batch * shape_.heads * shape_.tokens <= std::int64_t{INT32_MAX},
          "attention on a GPU: batch * heads * tokens is too large");
    if (tensors.output_gradients.empty()) return;
    dy_ = tensors.output_gradients.at(0);
    dx_ = tensors.input_gradients.at(0);
    const std::size_t rows = static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.tokens);
    rows_ = context.device->allocate(rows * sizeof(AttentionRow));
    row_terms_ = context.device->allocate(rows * sizeof(float));
  }

  void forward(Stream& stream) override {
    with_form([&]<typename T, int fixed_size>(std::type_identity<T>, std::integral_constant<int, fixed_size>) {
      launch(AttentionForward<T, fixed_size>(shape_, arrays<T>()), stream);
    });
  }

  void backward(Stream& stream) override {
    if (!dx_) return;
    with_form([&]<typename T, int fixed_size>(std::type_identity<T>, std::integral_constant<int, fixed_size>) {
      launch(AttentionQueryGradient<T, fixed_size>(shape_, arrays<T>()), stream);
      launch(AttentionKeyGradient<T, fixed_size>(shape_, arrays<T>()), stream);
      launch(AttentionValueGradient<T, fixed_size>(shape_, arrays<T>()), stream);
    });
  }

 private:
  template <typename T>
  AttentionArrays<T> arrays() const {
    return {.qkv = static_cast<const T*>(x_.data),
            .y = static_cast<T*>(y_.data),
            .dy = static_cast<const T*>(dy_.data),
            .dqkv = static_cast<T*>(dx_.data),
            .rows = static_cast<AttentionRow*>(rows_.data()),
            .row_terms = static_cast<float*>(row_terms_.data())};
  }

  /// Calls body(type of the elements, fixed size of the heads or 0).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x_.type,
                    [&](auto type) { with_attention_size(shape_.head_size(), [&](auto size) { body(type, size); }); });
  }

  AttentionShape shape_;
  Tensor x_, y_, dx_, dy_;
  Buffer rows_, row_terms_;  ///< [batch, heads, tokens], in training
};

}  // namespace

std::unique_ptr<Op> make_attention_cuda(const AttentionParams& params, const OpContext& context,
                                        const OpTensors& tensors) {
  return std::make_unique<AttentionCuda>(params, context, tensors);
}

}  // namespace carillon
