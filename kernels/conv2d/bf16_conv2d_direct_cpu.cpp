// The passes of conv2d on bf16 activations by direct convolutions in float32, for groups, dilation and large padding.
// The op has float32 copies of x and y; backward uses their memory for dx and dz.
#include <span>
#include <utility>
#include <vector>

#include "carillon/core/parallel.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/shared/convert_cpu.h"
#include "src/core/bf16.h"

namespace carillon {
namespace {

CARILLON_SIMD void round_to_bf16(const float* __restrict from, std::size_t count, float* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_float(to_bf16(from[i]));
}

/// to = from, in float32. Weights, which are float32, are rounded to bf16.
void load(const Tensor& from, const Tensor& to) {
  const std::span<float> floats = to.floats();
  parallel_ranges(floats.size(), elementwise_grain, [&](std::size_t first, std::size_t last) {
    if (from.type == DType::bf16) {
      read_floats(ElementPointer(from) + first, last - first, floats.data() + first);
    } else {
      round_to_bf16(from.floats().data() + first, last - first, floats.data() + first);
    }
  });
}

/// to = from, rounded to bf16.
void store(const Tensor& from, const Tensor& to) {
  const std::span<const float> floats = from.floats();
  parallel_ranges(floats.size(), elementwise_grain, [&](std::size_t first, std::size_t last) {
    write_floats(floats.data() + first, last - first, ElementPointer(to) + first);
  });
}

/// The memory of one op's float32 tensors.
struct Float32Tensors {
  Buffer memory[3];
  Tensor x, y, weights;

  Float32Tensors(CpuDevice& device, const OpTensors& tensors)
      : x(allocated(device, tensors.inputs.at(0).shape, memory[0])),
        y(allocated(device, tensors.outputs.at(0).shape, memory[1])),
        weights(allocated(device, tensors.parameters.at(0).shape, memory[2])) {}

 private:
  static Tensor allocated(CpuDevice& device, const Shape& shape, Buffer& memory) {
    Tensor tensor{nullptr, shape, DType::f32};
    memory = device.allocate(tensor.bytes());
    tensor.data = memory.data();
    return tensor;
  }
};

/// A pass between conversions.
class ConvertedPass final : public Conv2dPassCpu {
 public:
  struct Conversion {
    Tensor from, to;
  };
  /// `memory`: of the float32 tensors. A pass with a result in float32 has no conversion after it.
  ConvertedPass(std::shared_ptr<const Float32Tensors> memory, std::vector<Conversion> before,
                std::unique_ptr<Conv2dPassCpu> pass, std::vector<Conversion> after)
      : memory_(std::move(memory)), before_(std::move(before)), pass_(std::move(pass)), after_(std::move(after)) {}

  void run() override {
    for (const auto& [from, to] : before_) load(from, to);
    pass_->run();
    for (const auto& [from, to] : after_) store(from, to);
  }

 private:
  std::shared_ptr<const Float32Tensors> memory_;
  std::vector<Conversion> before_;
  std::unique_ptr<Conv2dPassCpu> pass_;
  std::vector<Conversion> after_;
};

}  // namespace

Conv2dPassesCpu make_bf16_direct_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const auto wide = std::make_shared<const Float32Tensors>(device, tensors);
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  OpTensors in_float32 = tensors;
  in_float32.inputs[0] = wide->x;
  in_float32.outputs[0] = wide->y;
  in_float32.parameters[0] = wide->weights;
  if (!tensors.output_gradients.empty()) {
    in_float32.output_gradients[0] = wide->y;
    if (tensors.input_gradients.at(0)) in_float32.input_gradients[0] = wide->x;
  }
  Conv2dPassesCpu direct = make_direct_conv2d(geometry, device, in_float32), passes;
  const auto converted = [&](auto before, std::unique_ptr<Conv2dPassCpu> pass, auto after) {
    return std::make_unique<ConvertedPass>(wide, std::move(before), std::move(pass), std::move(after));
  };
  using Conversions = std::vector<ConvertedPass::Conversion>;
  passes.forward = converted(Conversions{{x, wide->x}, {weights, wide->weights}}, std::move(direct.forward),
                             Conversions{{wide->y, y}});
  if (!direct.weights_gradient) return passes;
  const Tensor& dz = tensors.output_gradients.at(0);
  passes.weights_gradient =
      converted(Conversions{{x, wide->x}, {dz, wide->y}}, std::move(direct.weights_gradient), Conversions{});
  if (!direct.data_gradient) return passes;
  // The gradient of the weights runs before and has converted dz.
  passes.data_gradient =
      converted(Conversions{}, std::move(direct.data_gradient), Conversions{{wide->x, tensors.input_gradients.at(0)}});
  return passes;
}

}  // namespace carillon
