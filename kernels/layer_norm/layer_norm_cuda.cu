// layer_norm on a GPU: one kernel in forward, and two or three kernels in backward.
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_backward_kernel.h"
#include "kernels/layer_norm/layer_norm_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

class LayerNormCuda final : public Op {
 public:
  LayerNormCuda(const LayerNormParams& params, bool accumulates_dx, const OpContext& context, const OpTensors& tensors)
      : epsilon_(params.epsilon), accumulates_dx_(accumulates_dx), tensors_(tensors) {
    check_index_limit("layer_norm", x().shape.element_count());
    if (!context.training) return;
    norms_ = context.device->allocate(static_cast<std::size_t>(rows()) * sizeof(RowNorm));
    with_rows([&](const auto& rows) {
      const std::int64_t sums = 2 * sums_cut(rows).row_blocks() * channels();
      parts_ = context.device->allocate(static_cast<std::size_t>(sums) * sizeof(double));
    });
  }

  void forward(Stream& stream) override {
    with_rows([&]<typename T, int n, int packs>(const LayerNormRows<T, n, packs>& rows) {
      launch(LayerNormForward<T, n, packs>{rows, floats(tensors_.parameters[1]), epsilon_, norms(),
                                           static_cast<T*>(tensors_.outputs[0].data)},
             stream);
    });
  }

  void backward(Stream& stream) override {
    const Tensor &dgamma = tensors_.parameter_gradients[0], &dbeta = tensors_.parameter_gradients[1];
    with_rows([&]<typename T, int n, int packs>(const LayerNormRows<T, n, packs>& rows) {
      const ColumnCut cut = sums_cut(rows);
      const T* const dy = static_cast<const T*>(tensors_.output_gradients[0].data);
      T* const dx = static_cast<T*>(tensors_.input_gradients[0].data);
      const bool sums = dgamma || dbeta;
      if constexpr (packs > 0) {
        launch(LayerNormBackward<T, n, packs>{rows, norms(), dy, dx, accumulates_dx_, cut, parts(cut)}, stream);
      } else {
        if (dx != nullptr) launch(LayerNormGradient<T, n>{rows, norms(), dy, dx, accumulates_dx_}, stream);
        const LayerNormGradients<T, n> terms{rows.x, dy, norms(), static_cast<std::uint32_t>(channels())};
        if (sums) launch(ColumnSums<n, LayerNormGradients<T, n>>{terms, cut, parts(cut)}, stream);
      }
      if (sums) launch(CombineColumnSums{{}, cut, parts(cut), floats(dbeta), floats(dgamma)}, stream);
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  std::int64_t channels() const { return x().shape.extents().back(); }
  std::int64_t rows() const { return x().shape.element_count() / channels(); }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }
  RowNorm* norms() const { return static_cast<RowNorm*>(norms_.data()); }
  template <typename T, int n, int packs>
  static ColumnCut sums_cut(const LayerNormRows<T, n, packs>& rows) {
    return packs > 0 ? layer_norm_sums_cut(rows.cut) : column_cut(rows.cut.rows, rows.cut.channels, n);
  }
  ColumnParts parts(const ColumnCut& cut) const {
    double* const first = static_cast<double*>(parts_.data());
    return {first, first + cut.row_blocks() * cut.columns};
  }

  /// Calls body with the LayerNormRows of x.
  template <typename Body>
  void with_rows(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T>) {
      with_pack_size<T>(channels(), [&]<int n>(std::integral_constant<int, n>) {
        const LayerNormCut cut = layer_norm_cut(rows(), channels(), n);
        with_layer_norm_packs<T, n>(cut, [&]<int packs>(std::integral_constant<int, packs>) {
          body(LayerNormRows<T, n, packs>{cut, static_cast<const T*>(x().data), floats(tensors_.parameters[0])});
        });
      });
    });
  }

  float epsilon_;
  bool accumulates_dx_;
  OpTensors tensors_;
  Buffer norms_;  ///< RowNorm [rows], in training
  Buffer parts_;  ///< ColumnParts, in training
};

}  // namespace

std::unique_ptr<Op> make_layer_norm_cuda(const LayerNormParams& params, bool accumulates_dx, const OpContext& context,
                                         const OpTensors& tensors) {
  return std::make_unique<LayerNormCuda>(params, accumulates_dx, context, tensors);
}

}  // namespace carillon
