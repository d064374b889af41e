// layer_norm on a GPU: one kernel forward; one backward for dx, and two for the gradients of gamma and beta.
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/index_limit.h"
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
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const std::int64_t sums = 2 * sums_cut(n).row_blocks() * channels();
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
    if (const Tensor& dx = tensors_.input_gradients[0]) {
      with_rows([&]<typename T, int n, int packs>(const LayerNormRows<T, n, packs>& rows) {
        launch(LayerNormGradient<T, n, packs>{rows, norms(), dy<T>(), static_cast<T*>(dx.data), accumulates_dx_},
               stream);
      });
    }
    const Tensor &dgamma = tensors_.parameter_gradients[0], &dbeta = tensors_.parameter_gradients[1];
    if (!dgamma && !dbeta) return;
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const LayerNormGradients<T, n> terms{static_cast<const T*>(x().data), dy<T>(), norms(),
                                           static_cast<std::uint32_t>(channels())};
      const ColumnCut cut = sums_cut(n);
      launch(ColumnSums<n, LayerNormGradients<T, n>>{terms, cut, parts(cut)}, stream);
      launch(CombineColumnSums{{cut, parts(cut)}, floats(dbeta), floats(dgamma)}, stream);
    });
  }

 private:
  const Tensor& x() const { return tensors_.inputs[0]; }
  std::int64_t channels() const { return x().shape.extents().back(); }
  std::int64_t rows() const { return x().shape.element_count() / channels(); }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }
  RowNorm* norms() const { return static_cast<RowNorm*>(norms_.data()); }
  ColumnCut sums_cut(int pack_size) const { return column_cut(rows(), channels(), pack_size); }
  ColumnParts parts(const ColumnCut& cut) const {
    double* const first = static_cast<double*>(parts_.data());
    return {first, first + cut.row_blocks() * cut.columns};
  }

  template <typename T>
  const T* dy() const {
    return static_cast<const T*>(tensors_.output_gradients[0].data);
  }

  /// Calls body(type of the elements, elements per pack).
  template <typename Body>
  void with_form(const Body& body) const {
    with_float_type(x().type, [&]<typename T>(std::type_identity<T> type) {
      with_pack_size<T>(channels(), [&](auto n) { body(type, n); });
    });
  }
  /// Calls body(the LayerNormRows of x).
  template <typename Body>
  void with_rows(const Body& body) const {
    with_form([&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      const LayerNormCut cut = layer_norm_cut(rows(), channels(), n);
      with_layer_norm_packs<T, n>(cut, [&]<int packs>(std::integral_constant<int, packs>) {
        body(LayerNormRows<T, n, packs>{cut, static_cast<const T*>(x().data), floats(tensors_.parameters[0])});
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
