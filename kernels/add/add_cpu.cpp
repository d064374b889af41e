// The CPU form of add.
#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/add/add.h"

namespace carillon {
namespace {

CARILLON_SIMD void sum(const float* __restrict a, const float* __restrict b, std::size_t count, float* __restrict y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

class AddCpu final : public Op {
 public:
  explicit AddCpu(const OpTensors& tensors)
      : a_(tensors.inputs.at(0)), b_(tensors.inputs.at(1)), y_(tensors.outputs.at(0)) {
    if (tensors.input_gradients.empty()) return;
    db_ = tensors.input_gradients.at(1);
    dy_ = tensors.output_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override {
    parallel_ranges(y_.floats().size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      sum(a_.floats().data() + begin, b_.floats().data() + begin, end - begin, y_.floats().data() + begin);
    });
  }

  void backward(Stream& /*stream*/) override {
    if (!db_) return;
    parallel_ranges(y_.floats().size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      std::copy_n(dy_.floats().data() + begin, end - begin, db_.floats().data() + begin);
    });
  }

 private:
  Tensor a_, b_, y_, db_, dy_;
};

}  // namespace

std::unique_ptr<Op> make_add_cpu(const OpContext& /*context*/, const OpTensors& tensors) {
  return std::make_unique<AddCpu>(tensors);
}

}  // namespace carillon
