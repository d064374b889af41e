// The definition of dense, and the op on a CPU. The op uses oneDNN's matrix products on plain layouts, with the bias as
// their epilogue.
//
// With plain layouts, the flat parameter array is the only copy. oneDNN packs one tile at a time for its kernel. The
// products take 3 to 7 % longer with plain layouts than with blocked weights, but no step has to reorder W and dW. If x
// is sparse, the products that read x skip its zeros (sparse_product.h). In bf16, the op runs as a 1x1 convolution.
#include "kernels/dense/dense.h"

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <variant>

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/sparse_product.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/onednn.h"
#include "kernels/shared/rows_cpu.h"
#include "src/device/cpu_device.h"
#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

using dnnl::memory;

/// The extents of a matrix. Also states whether the tensor holds the transpose of the matrix.
struct MatrixView {
  const Tensor* tensor;
  std::int64_t rows, columns;
  bool transposed = false;

  memory::desc desc() const {
    return {{rows, columns}, onednn_type(tensor->type), transposed ? memory::format_tag::ba : memory::format_tag::ab};
  }
};

/// The product c = a b (+ bias), ready to run.
class MatrixProduct {
 public:
  MatrixProduct(CpuDevice& device, const MatrixView& a, const MatrixView& b, const MatrixView& c,
                const Tensor* bias = nullptr)
      : stream_(device.dnnl_stream()) {
    const memory::desc bias_desc =
        bias ? memory::desc({1, c.columns}, onednn_type(bias->type), memory::format_tag::ab) : memory::desc();
    primitive_ = onednn_matmul(device.engine(), a.desc(), b.desc(), bias_desc, c.desc());
    arguments_ = {{DNNL_ARG_SRC, memory(a.desc(), device.engine(), a.tensor->data)},
                  {DNNL_ARG_WEIGHTS, memory(b.desc(), device.engine(), b.tensor->data)},
                  {DNNL_ARG_DST, memory(c.desc(), device.engine(), c.tensor->data)}};
    if (bias) arguments_.insert({DNNL_ARG_BIAS, memory(bias_desc, device.engine(), bias->data)});
  }

  void run() const { primitive_.execute(stream_, arguments_); }

 private:
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

/// A product that reads x.
using ProductOfInput = std::variant<MatrixProduct, SparseProductPass>;

void run(const ProductOfInput& product) {
  std::visit([](const auto& form) { form.run(); }, product);
}

class DenseCpu final : public Op {
 public:
  DenseCpu(const DenseForm& form, CpuDevice& device, const OpTensors& tensors) {
    const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0);
    const Tensor& weights = tensors.parameters.at(0);
    const Tensor biases = tensors.parameters.size() < 2 ? Tensor{} : tensors.parameters[1];
    const std::int64_t in = weights.shape[0], out = weights.shape[1], rows = x.shape.element_count() / in;
    const bool sparse = sparse_product_pays(device.isa(), form.input_density, out);
    if (sparse) {
      forward_.emplace(SparseProductPass(device, {.a = x, .b = weights, .bias = biases, .c = y, .relu = form.relu}));
    } else {
      forward_.emplace(
          MatrixProduct(device, {&x, rows, in}, {&weights, in, out}, {&y, rows, out}, biases ? &biases : nullptr));
      if (form.relu) relu_ = y;
    }
    if (tensors.parameter_gradients.empty()) return;
    const Tensor &dx = tensors.input_gradients.at(0), &dy = tensors.output_gradients.at(0);
    const Tensor& dw = tensors.parameter_gradients.at(0);
    if (biases) bias_relu_.emplace(form.relu ? y : Tensor{}, dy, tensors.parameter_gradients.at(1));
    if (sparse) {
      weights_backward_.emplace(SparseProductPass(device, {.a = x, .b = dy, .c = dw, .transposed = true}));
    } else {
      weights_backward_.emplace(MatrixProduct(device, {&x, in, rows, true}, {&dy, rows, out}, {&dw, in, out}));
    }
    if (dx) {
      data_backward_.emplace(device, MatrixView{&dy, rows, out}, MatrixView{&weights, out, in, true},
                             MatrixView{&dx, rows, in});
    }
  }

  void forward(Stream& /*stream*/) override {
    run(*forward_);
    if (relu_) relu_in_place(relu_);
  }

  void backward(Stream& /*stream*/) override {
    if (bias_relu_) bias_relu_->run();
    run(*weights_backward_);
    if (data_backward_) data_backward_->run();
  }

 private:
  std::optional<ProductOfInput> forward_, weights_backward_;
  Tensor relu_;  ///< y, if the op has a ReLU that the product does not apply; otherwise a tensor without data
  std::optional<MatrixProduct> data_backward_;
  std::optional<BiasReluBackward> bias_relu_;
};

/// Makes the layer as a 1x1 convolution of images of one pixel. Each row is an image.
std::unique_ptr<Op> make_dense_as_conv2d(bool relu, const OpContext& context, OpTensors tensors) {
  const Shape weights_shape = tensors.parameters.at(0).shape;
  const std::int64_t rows = tensors.inputs.at(0).shape.element_count() / weights_shape[0];
  for (auto* const activations :
       {&tensors.inputs, &tensors.input_gradients, &tensors.outputs, &tensors.output_gradients}) {
    for (Tensor& of : *activations) of.shape = {rows, 1, 1, of.shape.element_count() / rows};
  }
  for (auto* const weights : {&tensors.parameters, &tensors.parameter_gradients}) {
    if (!weights->empty()) weights->front().shape = {1, 1, weights->front().shape[0], weights->front().shape[1]};
  }
  const SlidingWindow pixel = slide(1, 1, 1, Padding::valid);
  return make_conv2d_cpu({.vertical = pixel, .horizontal = pixel, .relu = relu}, context, tensors);
}

std::unique_ptr<Op> make_cpu(const DenseForm& form, const OpContext& context, const OpTensors& tensors) {
  if (tensors.inputs.at(0).type == DType::bf16) return make_dense_as_conv2d(form.relu, context, tensors);
  return std::make_unique<DenseCpu>(form, as_cpu(*context.device), tensors);
}

class DenseDefinition final : public OpDefinition {
 public:
  DenseDefinition(const DenseForm& form, bool has_biases) : form_(form), has_biases_(has_biases) {}
  std::string_view type() const override { return "dense"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true, .outputs = form_.relu}; }
  std::shared_ptr<const OpDefinition> with_activation(ActivationKind activation) const {
    if (activation != ActivationKind::relu || !has_biases_ || form_.has_addend) return nullptr;
    DenseForm form = form_;
    form.relu = true;
    return std::make_shared<DenseDefinition>(form, true);
  }
  std::shared_ptr<const OpDefinition> with_addend(DeviceKind device) const {
    if (device != DeviceKind::cuda || form_.has_addend || form_.relu || is_switched_off("fused_additions")) {
      return nullptr;
    }
    DenseForm form = form_;
    form.has_addend = true;
    return std::make_shared<DenseDefinition>(form, has_biases_);
  }
  /// The gradient of the addend is the gradient of the output, which backward does not change.
  std::optional<int> gradient_shares_output(int input) const override {
    return form_.has_addend && input == 1 ? std::optional(0) : std::nullopt;
  }
  std::optional<int> column_summed_parameter() const {
    return has_biases_ && !form_.relu ? std::optional(1) : std::nullopt;
  }
  bool keeps_output_gradient() const { return !form_.relu && !form_.has_addend; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context,
        [&] {
          check(!form_.has_addend, "only a dense op on a GPU can add an input to its output");
          return make_cpu(form_, context, tensors);
        },
        [&] { return make_dense_cuda(form_.relu, context, tensors); });
  }

 private:
  DenseForm form_;
  bool has_biases_;
};

const OpTraits dense_traits{
    .with_activation = trait<&DenseDefinition::with_activation>,
    .with_addend = trait<&DenseDefinition::with_addend>,
    .keeps_output_gradient = trait<&DenseDefinition::keeps_output_gradient>,
    .compute_copy_format = [](int /*parameter*/) { return ComputeCopyFormat::same_layout; },
    .column_summed_parameter = trait<&DenseDefinition::column_summed_parameter>,
};

}  // namespace

const OpType dense_op = op_type<DenseParams, dense>("dense");

Value dense(Graph& graph, const std::string& name, Value x, const DenseParams& params) {
  const Shape& shape = graph.shape(x);
  const std::int64_t in = params.per_position ? shape.extents().back() : shape.elements_per_sample();
  std::vector<std::int64_t> output{shape[0], params.units};
  if (params.per_position) {
    output = shape.extents();
    output.back() = params.units;
  }
  std::vector<int> parameters{
      graph.add_parameter({name + "/weights", {in, params.units}, params.weights, params.l2_factor})};
  if (params.biases) parameters.push_back(graph.add_parameter({name + "/biases", {params.units}, *params.biases}));
  const DenseForm form{.input_density = params.input_density, .per_position = params.per_position};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DenseDefinition>(form, params.biases.has_value()),
                       .inputs = {x},
                       .parameters = parameters,
                       .traits = dense_traits,
                       .type = &dense_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(output)));
}

}  // namespace carillon
