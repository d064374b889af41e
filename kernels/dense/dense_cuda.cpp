// dense on a GPU: uses cuBLASLt's products. If cuBLASLt has an epilogue for this, the product also adds the bias and
// applies the ReLU. The product also adds an addend (the input of a residual block). This saves a kernel and two passes
// over the output.
//
// cuBLASLt's ReLU keeps a NaN only in kernels without tensor cores. Therefore the op uses cuBLASLt's ReLU only in fp32.
// (Measured on an H200: the kernels nvjet_*_relubias turn NaN into 0.)
//
// If activations are bf16, the products read W and b in bfloat16. They read the compute copies of W and b or, if there
// are none, copies that each forward makes. The product of the gradient of W has a float32 result. The epilogue of this
// product can sum the columns of dy; these sums are the gradient of b. This epilogue is off by default
// (bias_gradient_epilogue in src/device/cuda_backend.h). The epilogue requires a layer without ReLU, and bf16 (in tf32,
// the epilogue may add values that are already rounded). The algorithm with this epilogue must divide the sums over the
// rows into at least as many parts as the algorithm without it.
#include <optional>

#include "carillon/core/error.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/convert.h"
#include "kernels/shared/gradient_sums.h"
#include "kernels/shared/matrix_product_cuda.h"
#include "src/device/cuda_backend.h"

namespace carillon {
namespace {

/// A float32 parameter in the activations' type. It is the parameter itself, its compute copy, or a temporary copy.
class ParameterCopy {
 public:
  /// `format`: format of the compute copy.
  ParameterCopy(Device& device, const OpTensors& tensors, std::size_t number, DType type,
                ComputeCopyFormat format = ComputeCopyFormat::same_layout)
      : parameter_(tensors.parameters.at(number)), copy_{parameter_.data, parameter_.shape, type} {
    const auto& compute_copies = tensors.parameter_compute_copies;
    if (!compute_copies.empty() && compute_copies.at(number)) {
      copy_ = compute_copies[number];
      is_filter_major_ = format == ComputeCopyFormat::filter_major;
      const Shape& shape = parameter_.shape;
      check(copy_.type == type && copy_.shape == (is_filter_major_ ? Shape{shape[1], shape[0]} : shape),
            "dense requires compute copies in the activations' type");
    } else if (copy_.type != parameter_.type) {
      memory_ = device.allocate(copy_.bytes());
      copy_.data = memory_.data();
    }
  }

  const Tensor& tensor() const { return copy_; }
  /// matrix() returns the copy of a matrix [rows, columns] as an operand. transpose() returns the transpose of this
  /// matrix as an operand.
  MatrixOperand matrix() const { return {&copy_, {extent(0), extent(1), is_filter_major_}}; }
  MatrixOperand transpose() const { return {&copy_, {extent(1), extent(0), !is_filter_major_}}; }
  void refresh(Stream& stream) const {
    if (memory_.data() != nullptr) convert_cuda(parameter_, copy_, stream);
  }

 private:
  std::int64_t extent(std::size_t axis) const { return parameter_.shape[axis]; }

  Tensor parameter_, copy_;
  bool is_filter_major_ = false;
  Buffer memory_;
};

class DenseCuda final : public Op {
 public:
  DenseCuda(bool relu, CudaDevice& device, Arithmetic arithmetic, const OpTensors& tensors,
            ComputeCopyFormat weights_copy)
      : relu_(relu),
        addend_(tensors.inputs.size() < 2 ? Tensor{} : tensors.inputs[1]),
        biases_(tensors.parameters.size() < 2 ? Tensor{} : tensors.parameters[1]),
        y_(tensors.outputs.at(0)),
        product_weights_(device, tensors, 0, y_.type, weights_copy) {
    const Tensor& x = tensors.inputs.at(0);
    const Shape& shape = tensors.parameters.at(0).shape;
    const std::int64_t in = shape[0], out = shape[1], rows = x.shape.element_count() / in;
    const MatrixOperand xs{&x, {rows, in}}, weights = product_weights_.matrix(), ys{&y_, {rows, out}};
    if (biases_) product_biases_.emplace(device, tensors, 1, y_.type);
    if (biases_ || addend_) {
      product_has_relu_ = relu && arithmetic == Arithmetic::fp32;
      const MatrixEpilogue epilogue{.bias = biases_ ? &product_biases_->tensor() : nullptr,
                                    .relu = product_has_relu_,
                                    .addend = addend_ ? &addend_ : nullptr};
      forward_ = MatrixProductCuda::with_epilogue(device, arithmetic, xs, weights, ys, epilogue);
    }
    adds_later_ = (biases_ || addend_) && !forward_;
    if (!forward_) forward_.emplace(device, arithmetic, xs, weights, ys);
    if (tensors.parameter_gradients.empty()) return;
    const Tensor &dx = tensors.input_gradients.at(0), &dy = tensors.output_gradients.at(0);
    if (biases_ && tensors.parameter_gradients.at(1)) {
      bias_relu_backward_.emplace(device, relu ? y_ : Tensor{}, dy, tensors.parameter_gradients.at(1));
    }
    const MatrixOperand transposed_xs{&x, {in, rows, true}}, dys{&dy, {rows, out}};
    const MatrixOperand dws{&tensors.parameter_gradients.at(0), {in, out}};
    weights_backward_.emplace(device, arithmetic, transposed_xs, dys, dws);
    if (bias_relu_backward_ && !relu && dy.type == DType::bf16 && !is_switched_off("bias_gradient_epilogue")) {
      const MatrixEpilogue sums{.b_sums = &tensors.parameter_gradients.at(1)};
      auto product = MatrixProductCuda::with_epilogue(device, arithmetic, transposed_xs, dys, dws, sums);
      if (product && product->splits() >= weights_backward_->splits()) {
        weights_backward_ = std::move(product);
        bias_relu_backward_.reset();
      }
    }
    if (dx) {
      data_backward_.emplace(device, arithmetic, dys, product_weights_.transpose(), MatrixOperand{&dx, {rows, in}});
    }
  }

  void forward(Stream& stream) override {
    product_weights_.refresh(stream);
    if (biases_ && !adds_later_) product_biases_->refresh(stream);
    forward_->run(stream);
    if (adds_later_) {
      if (biases_) bias_relu_cuda(biases_, relu_, y_, stream);
      if (addend_) map_cuda({Sum{}, y_, addend_, y_}, stream);
    } else if (relu_ && !product_has_relu_) {
      map_cuda({ValueOf<Relu>{}, y_, {}, y_}, stream);
    }
  }

  void backward(Stream& stream) override {
    if (bias_relu_backward_) bias_relu_backward_->run(stream);
    weights_backward_->run(stream);
    if (data_backward_) data_backward_->run(stream);  // last, because dx may overwrite x
  }

 private:
  bool relu_;
  Tensor addend_, biases_, y_;  ///< addend_, biases_: a tensor without data if there is no addend, or no biases
  ParameterCopy product_weights_;
  std::optional<ParameterCopy> product_biases_;
  std::optional<MatrixProductCuda> forward_, weights_backward_, data_backward_;
  bool adds_later_ = false;  ///< true: the op has biases or an addend, and the forward product does not add them
  bool product_has_relu_ = false;
  std::optional<BiasReluBackwardCuda> bias_relu_backward_;
};

}  // namespace

std::unique_ptr<Op> make_dense_cuda(bool relu, const OpContext& context, const OpTensors& tensors,
                                    ComputeCopyFormat weights_copy) {
  return std::make_unique<DenseCuda>(relu, as_cuda(*context.device), context.arithmetic, tensors, weights_copy);
}

}  // namespace carillon
