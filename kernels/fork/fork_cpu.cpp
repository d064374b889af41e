// The CPU form of fork: nothing forward, a sum in place backward.
#include "carillon/core/parallel.h"
#include "kernels/fork/fork.h"

namespace carillon {
namespace {

CARILLON_SIMD void add_to(float* __restrict sum, const float* __restrict term, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
}

class ForkCpu final : public Op {
 public:
  explicit ForkCpu(const OpTensors& tensors) : gradients_(tensors.output_gradients) {}

  void forward(Stream& /*stream*/) override {}

  void backward(Stream& /*stream*/) override {
    const std::span<float> sum = gradients_.at(0).floats();
    for (std::size_t k = 1; k < gradients_.size(); ++k) {
      const float* const term = gradients_[k].floats().data();
      parallel_ranges(sum.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
        add_to(sum.data() + begin, term + begin, end - begin);
      });
    }
  }

 private:
  std::vector<Tensor> gradients_;
};

}  // namespace

std::unique_ptr<Op> make_fork_cpu(const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<ForkCpu>(tensors);
}

}  // namespace carillon
