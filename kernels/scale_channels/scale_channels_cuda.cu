// scale_channels on a GPU: one kernel in forward, and two in backward. If only dx is needed, backward has one kernel.
// If the op that produces x has biases, backward also sums the columns of dx. These sums are the gradient of the
// biases.
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/scale_channels/scale_channels_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class ScaleChannelsCuda final : public Op {
 public:
  ScaleChannelsCuda(const OpContext& context, const OpTensors& tensors) : tensors_(tensors) {
    check_index_limit("scale_channels", x().shape.element_count());
    if (!context.training) return;
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const std::int64_t sums = 2 * cut(n).row_blocks() * channels();
      parts_ = context.device->allocate(static_cast<std::size_t>(sums) * sizeof(double));
    });
  }

  void forward(Stream& stream) override {
    if (tensors_.inputs.size() > 1) {
      scale<true>(x(), tensors_.outputs[0], stream);
    } else {
      scale<false>(x(), tensors_.outputs[0], stream);
    }
  }

  void backward(Stream& stream) override {
    const Tensor &dy = tensors_.output_gradients[0], &dx = tensors_.input_gradients[0];
    const Tensor &dgamma = tensors_.parameter_gradients[0], &sums = tensors_.input_gradient_sums;
    if (!dgamma && !sums) {
      if (dx) scale<false>(dy, dx, stream);
      return;
    }
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      double* const first = static_cast<double*>(parts_.data());
      const ColumnParts parts{first, first + cut(n).row_blocks() * channels()};
      const ScaleChannelsGradients<T, n> terms{static_cast<const float*>(tensors_.parameters[0].data),
                                               static_cast<const T*>(x().data), static_cast<const T*>(dy.data),
                                               static_cast<T*>(dx.data), static_cast<std::uint32_t>(channels())};
      launch(ColumnSums<n, ScaleChannelsGradients<T, n>>{terms, cut(n), parts}, stream);
      launch(CombineColumnSums{{}, cut(n), parts, static_cast<float*>(sums.data), static_cast<float*>(dgamma.data)},
             stream);
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  std::int64_t channels() const { return x().shape.extents().back(); }
  std::int64_t rows() const { return x().shape.element_count() / channels(); }
  ColumnCut cut(int pack_size) const { return column_cut(rows(), channels(), pack_size); }

  template <bool adds>
  void scale(const Tensor& from, const Tensor& to, Stream& stream) const {
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const PackedRows<n> packs{static_cast<std::uint32_t>(rows()), static_cast<std::uint32_t>(channels() / n)};
      const ScaleChannelsRows<T, n, adds> kernel{packs, static_cast<const float*>(tensors_.parameters[0].data),
                                                 static_cast<const T*>(from.data), static_cast<T*>(to.data),
                                                 adds ? static_cast<const T*>(tensors_.inputs[1].data) : nullptr};
      launch(ForEachElement{kernel, packs.count()}, stream);
    });
  }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(channels(), [&](auto n) { body(type, n); });
    });
  }

  OpTensors tensors_;
  Buffer parts_;  ///< ColumnParts, in training
};

}  // namespace

std::unique_ptr<Op> make_scale_channels_cuda(const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<ScaleChannelsCuda>(context, tensors);
}

}  // namespace carillon
