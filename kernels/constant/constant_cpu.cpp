// constant on a CPU.
#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/constant/constant.h"
#include "kernels/shared/convert_cpu.h"

namespace carillon {
namespace {

class ConstantCpu final : public Op {
 public:
  ConstantCpu(std::shared_ptr<const std::vector<float>> values, const OpTensors& tensors)
      : values_(std::move(values)), y_(tensors.outputs.at(0)) {}

  void forward(Stream& /*stream*/) override {
    const auto size = static_cast<std::size_t>(y_.shape.elements_per_sample());
    parallel_items(static_cast<std::size_t>(y_.shape[0]), size, elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t sample = first; sample < last; ++sample) {
                       write_sample(sample_of(y_, static_cast<std::int64_t>(sample)), size);
                     }
                   });
  }
  void backward(Stream& /*stream*/) override {}

 private:
  void write_sample(ElementPointer y, std::size_t size) const {
    if (values_->size() == size) return write_floats(values_->data(), size, y);
    with_float_type(y.type(), [&]<typename T>(std::type_identity<T>) {
      std::fill_n(y.as<T>(), size, stored_as<T>(values_->front()));
    });
  }

  std::shared_ptr<const std::vector<float>> values_;
  Tensor y_;
};

}  // namespace

std::unique_ptr<Op> make_constant_cpu(std::shared_ptr<const std::vector<float>> values, const OpTensors& tensors) {
  return std::make_unique<ConstantCpu>(std::move(values), tensors);
}

}  // namespace carillon
