// The CPU form of scale.
#include "carillon/core/parallel.h"
#include "kernels/scale/scale.h"

namespace carillon {
namespace {

CARILLON_SIMD void multiply(float factor, const float* x, std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = factor * x[i];
}

class ScaleCpu final : public Op {
 public:
  ScaleCpu(float factor, const OpTensors& tensors)
      : factor_(factor), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override { run(x_, y_); }
  void backward(Stream& /*stream*/) override {
    if (dx_) run(dx_, dx_);
  }

 private:
  void run(const Tensor& from, const Tensor& to) const {
    const float* const x = from.floats().data();
    float* const y = to.floats().data();
    parallel_ranges(to.floats().size(), elementwise_grain,
                    [&](std::size_t begin, std::size_t end) { multiply(factor_, x + begin, end - begin, y + begin); });
  }

  float factor_;
  Tensor x_, y_, dx_;
};

}  // namespace

std::unique_ptr<Op> make_scale_cpu(float factor, const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ScaleCpu>(factor, tensors);
}

}  // namespace carillon
