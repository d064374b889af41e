// conv2d on a GPU. If the windows tile the input, uses products of patches (patch_kernels.h). Otherwise uses cuDNN's
// convolutions on NHWC activations.
//
// cuDNN reads weights as [filter, row, column, channel] in the activations' type. These weights are the parameter's
// compute copy or, if there is none, a transpose that each forward computes. The gradient of the weights has the same
// layout and is transposed into the parameter's layout. If the channels of x are padded, the channels of the weights
// are also padded. If the convolution has groups, there is no padding and no compute copy.
#include <optional>

#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_plan_cuda.h"
#include "kernels/conv2d/patch_kernels.h"
#include "kernels/shared/convert.h"
#include "kernels/shared/gradient_sums.h"
#include "src/device/cuda_backend.h"
#include "src/device/cuda_device.h"

namespace carillon {
namespace {

std::string_view name_of(Conv2dPass pass) {
  if (pass == Conv2dPass::weights_gradient) return "gradient of the weights";
  return pass == Conv2dPass::data_gradient ? "gradient of the input" : "forward pass";
}

/// The weights or their gradient in cuDNN's layout: [filters, window * channels] in the activations' type.
class FilterMajorWeights {
 public:
  /// `x`: the activations; with groups, their channels are not padded. `compute_copy`: if it has data, it holds the
  /// current weights.
  FilterMajorWeights(CudaDevice& device, const Tensor& weights, std::int64_t groups, const Tensor& x,
                     const Tensor& compute_copy = {})
      : weights_(weights),
        filters_(weights.shape[3]),
        inputs_(weights.shape.element_count() / filters_),
        padding_(groups == 1 ? channel_padding(weights.shape, x.shape) : ChannelPadding{}),
        transposed_{compute_copy.data, {filters_, padding_.extent(inputs_)}, x.type} {
    if (compute_copy) {
      check(compute_copy.type == x.type && compute_copy.shape == transposed_.shape,
            "conv2d requires a compute copy in the layout that cuDNN reads");
      return;
    }
    memory_ = device.allocate(transposed_.bytes());
    transposed_.data = memory_.data();
  }

  void* data() const { return transposed_.data; }
  void load(Stream& stream) const {
    if (memory_.data() == nullptr) return;
    transpose_cuda({.from = weights_, .to = transposed_, .to_padding = padding_}, inputs_, filters_, stream);
  }
  void store(Stream& stream) const {
    transpose_cuda({.from = transposed_, .from_padding = padding_, .to = weights_}, filters_, inputs_, stream);
  }

 private:
  Tensor weights_;
  std::int64_t filters_, inputs_;  ///< inputs_: number of elements that each filter reads
  ChannelPadding padding_;
  Buffer memory_;
  Tensor transposed_;
};

class Conv2dCuda final : public Op {
 public:
  Conv2dCuda(const Conv2dGeometry& geometry, CudaDevice& device, Arithmetic arithmetic, const OpTensors& tensors)
      : device_(device),
        relu_(geometry.relu),
        groups_(geometry.groups),
        x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        biases_(tensors.parameters.size() < 2 ? Tensor{} : tensors.parameters[1]),
        weights_(device, tensors.parameters.at(0), groups_, x_,
                 tensors.parameter_compute_copies.empty() ? Tensor{} : tensors.parameter_compute_copies[0]) {
    task_ = {.layout = conv2d_layout(geometry, x_.shape, tensors.parameters.at(0).shape, y_.shape),
             .type = x_.type,
             .arithmetic = arithmetic,
             .workspace_bytes = device.workspace().size()};
    forward_ = plan(Conv2dPass::forward);
    if (auto with_biases = plan_with_biases()) forward_ = std::move(with_biases);
    if (!tensors.parameter_gradients.empty()) make_backward(tensors);
  }

  void forward(Stream& stream) override {
    check(as_cuda(stream).get() == device_.compute_stream().get(),
          "cuDNN must run on the compute stream of its device");
    weights_.load(stream);
    forward_->run(device_.cudnn(), {.x = x_.data, .weights = weights_.data(), .biases = biases_.data, .y = y_.data},
                  workspace());
    if (adds_biases_) bias_relu_cuda(biases_, relu_, y_, stream);
  }

  void backward(Stream& stream) override {
    if (bias_relu_backward_) bias_relu_backward_->run(stream);
    weights_backward_->run(device_.cudnn(), {.x = x_.data, .weights = weights_gradient_->data(), .y = dz_},
                           workspace());
    weights_gradient_->store(stream);
    if (!data_backward_) return;
    data_backward_->run(device_.cudnn(), {.x = dx_, .weights = weights_.data(), .y = dz_}, workspace());
  }

 private:
  void make_backward(const OpTensors& tensors) {
    const Tensor &dx = tensors.input_gradients.at(0), &dy = tensors.output_gradients.at(0);
    if (biases_) bias_relu_backward_.emplace(device_, relu_ ? y_ : Tensor{}, dy, tensors.parameter_gradients.at(1));
    dz_ = dy.data;
    dx_ = dx.data;
    weights_backward_ = plan(Conv2dPass::weights_gradient);
    weights_gradient_.emplace(device_, tensors.parameter_gradients.at(0), groups_, x_);
    if (dx) data_backward_ = plan(Conv2dPass::data_gradient);
  }

  /// Returns a forward plan that adds the biases. Returns null if there are no biases, if the op has a ReLU, or if
  /// cuDNN has no such plan. Also returns null if only one of the two plans (with or without biases) uses tensor cores.
  std::unique_ptr<Conv2dPlan> plan_with_biases() {
    adds_biases_ = static_cast<bool>(biases_);
    if (!biases_ || relu_) return nullptr;
    auto found = try_plan(Conv2dPass::forward_bias);
    if (!found || found->on_tensor_cores() != forward_->on_tensor_cores()) return nullptr;
    adds_biases_ = false;
    return found;
  }

  std::unique_ptr<Conv2dPlan> try_plan(Conv2dPass pass) {
    task_.pass = pass;
    return Conv2dPlan::find({.handle = device_.cudnn()}, task_, reason_);
  }

  std::unique_ptr<Conv2dPlan> plan(Conv2dPass pass) {
    auto found = try_plan(pass);
    if (found) return found;
    fail(ExitCode::failed, "cuDNN has no kernel for the {} of a convolution from {} to {}: {}", name_of(pass),
         x_.shape.text(), y_.shape.text(), reason_);
  }

  void* workspace() const { return device_.workspace().data(); }

  CudaDevice& device_;
  bool relu_;
  std::int64_t groups_;
  Tensor x_, y_, biases_;  ///< biases_: a tensor without data if the op has no biases
  FilterMajorWeights weights_;
  Conv2dTask task_;
  std::string reason_;
  std::unique_ptr<Conv2dPlan> forward_, weights_backward_, data_backward_;
  bool adds_biases_ = false;  ///< true: the op has biases, and the forward plan does not add them
  void *dz_ = nullptr, *dx_ = nullptr;
  std::optional<FilterMajorWeights> weights_gradient_;
  std::optional<BiasReluBackwardCuda> bias_relu_backward_;
};

bool is_product_of_patches(const Conv2dGeometry& geometry) {
  const bool is_pointwise = geometry.vertical.window == 1 && geometry.horizontal.window == 1;
  return windows_tile_input(geometry) && !is_switched_off(is_pointwise ? "pointwise_products" : "patch_products");
}

}  // namespace

std::unique_ptr<Op> make_conv2d_cuda(const Conv2dGeometry& geometry, const OpContext& context,
                                     const OpTensors& tensors) {
  if (is_product_of_patches(geometry)) return make_patch_product_cuda(geometry, context, tensors);
  return std::make_unique<Conv2dCuda>(geometry, as_cuda(*context.device), context.arithmetic, tensors);
}

}  // namespace carillon
