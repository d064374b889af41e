// The passes of conv2d that use oneDNN's direct convolutions, on plain NHWC activations.
//
// Each run reorders the weights into the format of the primitive, and reorders their gradient back. Weights are small
// (0.4 MB for 5x5x64x64) compared with the work, and the flat parameter array remains the only copy.
#include <dnnl.hpp>
#include <unordered_map>

#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/elementwise/elementwise_map.h"
#include "kernels/shared/onednn.h"

namespace carillon {
namespace {

using dnnl::memory;

/// oneDNN's descriptions of the tensors. The extents are in oneDNN's order, and the memory has Carillon's layout.
memory::desc activations_desc(const Tensor& t) {
  const Shape& s = t.shape;
  return {{s[0], s[3], s[1], s[2]}, onednn_type(t.type), memory::format_tag::nhwc};
}
/// States whether weights have the layout of the parameter, or a layout that the primitive chooses.
enum class WeightsLayout { plain, any };
/// Groups are the outermost extent in oneDNN's order. In memory, the last two extents are [groups, filters of a group].
memory::desc weights_desc(const Tensor& t, std::int64_t groups, WeightsLayout layout) {
  using enum memory::format_tag;
  const Shape& s = t.shape;
  const bool is_plain = layout == WeightsLayout::plain;
  if (groups == 1) return {{s[3], s[2], s[0], s[1]}, onednn_type(t.type), is_plain ? hwio : any};
  return {{groups, s[3] / groups, s[2], s[0], s[1]}, onednn_type(t.type), is_plain ? hwigo : any};
}
/// Returns an empty description if the op has no biases.
memory::desc biases_desc(const Tensor& t) {
  return t ? memory::desc{{t.shape[0]}, onednn_type(t.type), memory::format_tag::x} : memory::desc{};
}

/// Weights (or their gradient) in TensorFlow's layout, and a copy of them in a primitive's format.
class ReorderedWeights {
 public:
  ReorderedWeights(CpuDevice& device, const Tensor& plain, std::int64_t groups, const memory::desc& inner)
      : stream_(device.dnnl_stream()),
        plain_(weights_desc(plain, groups, WeightsLayout::plain), device.engine(), plain.data),
        inner_(plain_.get_desc() == inner ? plain_ : memory(inner, device.engine())),
        to_inner_(plain_, inner_),
        to_plain_(inner_, plain_),
        same_(plain_.get_desc() == inner) {}

  const memory& inner() const { return inner_; }
  void load() {
    if (!same_) to_inner_.execute(stream_, plain_, inner_);
  }
  void store() {
    if (!same_) to_plain_.execute(stream_, inner_, plain_);
  }

 private:
  dnnl::stream stream_;
  memory plain_, inner_;
  dnnl::reorder to_inner_, to_plain_;
  bool same_;
};

using Arguments = std::unordered_map<int, memory>;

/// Runs a primitive. Reorders the weights before the run, or the gradient of the weights after the run.
template <typename Primitive>
class DirectPass final : public Conv2dPassCpu {
 public:
  enum class Weights { read, written };
  /// `arguments`: all arguments of the primitive except the weights.
  DirectPass(CpuDevice& device, const typename Primitive::primitive_desc& primitive, const Tensor& weights,
             std::int64_t groups, const memory::desc& inner, Weights use, int weights_argument, Arguments arguments)
      : device_(device),
        primitive_(primitive),
        scratch_(primitive.scratchpad_desc(), device.engine(), DNNL_MEMORY_NONE),
        weights_(device, weights, groups, inner),
        use_(use),
        arguments_(std::move(arguments)) {
    arguments_.insert({weights_argument, weights_.inner()});
    arguments_.insert({DNNL_ARG_SCRATCHPAD, scratch_});
    device.reserve_workspace(primitive.scratchpad_desc().get_size());
  }

  void run() override {
    if (use_ == Weights::read) weights_.load();
    scratch_.set_data_handle(device_.workspace());  // set at each run, because other ops may have enlarged the
                                                    // workspace, which moves it
    primitive_.execute(device_.dnnl_stream(), arguments_);
    if (use_ == Weights::written) weights_.store();
  }

 private:
  CpuDevice& device_;
  Primitive primitive_;
  memory scratch_;
  ReorderedWeights weights_;
  Weights use_;
  Arguments arguments_;
};

/// Computes the forward pass and then the ReLU.
class PassWithRelu final : public Conv2dPassCpu {
 public:
  PassWithRelu(std::unique_ptr<Conv2dPassCpu> pass, const Tensor& y) : pass_(std::move(pass)), y_(y) {}
  void run() override {
    pass_->run();
    relu_in_place(y_);
  }

 private:
  std::unique_ptr<Conv2dPassCpu> pass_;
  Tensor y_;
};

}  // namespace

Conv2dPassesCpu make_direct_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0);
  const Tensor &weights = tensors.parameters.at(0), biases = biases_of(tensors);
  const OnednnConvolution convolution{
      .src = activations_desc(x),
      .weights = weights_desc(weights, geometry.groups, WeightsLayout::any),
      .bias = biases_desc(biases),
      .dst = activations_desc(y),
      .strides = {geometry.vertical.stride, geometry.horizontal.stride},
      // oneDNN counts dilations from 0: it expresses a dilation d as d - 1.
      .dilations = {geometry.vertical.dilation - 1, geometry.horizontal.dilation - 1},
      .padding_before = {geometry.vertical.before, geometry.horizontal.before},
      .padding_after = {geometry.vertical.after, geometry.horizontal.after},
  };
  const dnnl::engine& engine = device.engine();
  const auto at = [&](const memory::desc& desc, const Tensor& tensor) { return memory(desc, engine, tensor.data); };
  Conv2dPassesCpu passes;

  const auto forward = convolution.forward(engine);
  using Forward = DirectPass<dnnl::convolution_forward>;
  Arguments arguments{{DNNL_ARG_SRC, at(convolution.src, x)}, {DNNL_ARG_DST, at(convolution.dst, y)}};
  if (biases) arguments.insert({DNNL_ARG_BIAS, at(convolution.bias, biases)});
  passes.forward = std::make_unique<Forward>(device, forward, weights, geometry.groups, forward.weights_desc(),
                                             Forward::Weights::read, DNNL_ARG_WEIGHTS, std::move(arguments));
  if (geometry.relu) passes.forward = std::make_unique<PassWithRelu>(std::move(passes.forward), y);
  if (tensors.parameter_gradients.empty()) return passes;

  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  const auto by_weights = convolution.backward<OnednnConvolution::BackwardWeights>(engine, forward);
  using ByWeights = DirectPass<dnnl::convolution_backward_weights>;
  passes.weights_gradient = std::make_unique<ByWeights>(
      device, by_weights, tensors.parameter_gradients.at(0), geometry.groups, by_weights.diff_weights_desc(),
      ByWeights::Weights::written, DNNL_ARG_DIFF_WEIGHTS,
      Arguments{{DNNL_ARG_SRC, at(convolution.src, x)}, {DNNL_ARG_DIFF_DST, at(convolution.dst, dz)}});
  if (!dx) return passes;

  const auto by_data = convolution.backward<OnednnConvolution::BackwardData>(engine, forward);
  using ByData = DirectPass<dnnl::convolution_backward_data>;
  passes.data_gradient = std::make_unique<ByData>(
      device, by_data, weights, geometry.groups, by_data.weights_desc(), ByData::Weights::read, DNNL_ARG_WEIGHTS,
      Arguments{{DNNL_ARG_DIFF_DST, at(convolution.dst, dz)}, {DNNL_ARG_DIFF_SRC, at(convolution.src, dx)}});
  return passes;
}

}  // namespace carillon
