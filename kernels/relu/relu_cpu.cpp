// The CPU form of relu.
#include "carillon/core/parallel.h"
#include "kernels/relu/relu.h"

namespace carillon {
namespace {

CARILLON_SIMD void clip(const float* __restrict x, std::size_t count, float* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

CARILLON_SIMD void mask(const float* __restrict y, std::size_t count, float* __restrict dx) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] > 0.0f ? dx[i] : 0.0f;
}

class ReluCpu final : public Op {
 public:
  explicit ReluCpu(const OpTensors& tensors) : x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    const float* const x = x_.floats().data();
    float* const y = y_.floats().data();
    parallel_ranges(y_.floats().size(), elementwise_grain,
                    [&](std::size_t begin, std::size_t end) { clip(x + begin, end - begin, y + begin); });
  }

  void backward(Stream& /*stream*/) override {
    if (!dx_) return;
    const float* const y = y_.floats().data();
    float* const dx = dx_.floats().data();
    parallel_ranges(y_.floats().size(), elementwise_grain,
                    [&](std::size_t begin, std::size_t end) { mask(y + begin, end - begin, dx + begin); });
  }

 private:
  Tensor x_, y_, dx_;
};

}  // namespace

std::unique_ptr<Op> make_relu_cpu(const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ReluCpu>(tensors);
}

}  // namespace carillon
