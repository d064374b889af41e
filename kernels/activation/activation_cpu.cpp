// The CPU form of activations.
#include "carillon/core/parallel.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_math.h"

namespace carillon {
namespace {

template <typename Activation>
[[gnu::always_inline]] inline void find_values(const float* __restrict x, std::size_t count, float* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = Activation::value(x[i]);
}

template <typename Activation>
[[gnu::always_inline]] inline void find_gradients(const float* __restrict x, const float* __restrict dy,
                                                  std::size_t count, float* __restrict dx) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = Activation::gradient(x[i], dy[i]);
}

CARILLON_SIMD void find_all_values(ActivationKind kind, const float* x, std::size_t count, float* y) {
  with_smooth_activation(
      kind, [=]<typename A>(A) __attribute__((always_inline)) { find_values<A>(x, count, y); });
}

CARILLON_SIMD void find_all_gradients(ActivationKind kind, const float* x, const float* dy, std::size_t count,
                                      float* dx) {
  with_smooth_activation(
      kind, [=]<typename A>(A) __attribute__((always_inline)) { find_gradients<A>(x, dy, count, dx); });
}

class ActivationCpu final : public Op {
 public:
  ActivationCpu(ActivationKind kind, const OpTensors& tensors) : kind_(kind), tensors_(tensors) {}

  void forward(Stream& /*stream*/) override {
    const float* const x = tensors_.inputs[0].floats().data();
    float* const y = tensors_.outputs[0].floats().data();
    parallel_ranges(tensors_.inputs[0].floats().size(), grain, [&](std::size_t begin, std::size_t end) {
      find_all_values(kind_, x + begin, end - begin, y + begin);
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!tensors_.input_gradients[0]) return;
    const float* const x = tensors_.inputs[0].floats().data();
    const float* const dy = tensors_.output_gradients[0].floats().data();
    float* const dx = tensors_.input_gradients[0].floats().data();
    parallel_ranges(tensors_.inputs[0].floats().size(), grain, [&](std::size_t begin, std::size_t end) {
      find_all_gradients(kind_, x + begin, dy + begin, end - begin, dx + begin);
    });
  }

 private:
  static constexpr std::size_t grain = elementwise_grain / 4;  // several times the work of a copy

  ActivationKind kind_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_activation_cpu(ActivationKind kind, const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ActivationCpu>(kind, tensors);
}

}  // namespace carillon
