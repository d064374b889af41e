// The definition of constant, and the op on a CPU.
#include "kernels/constant/constant.h"

#include <algorithm>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
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

class ConstantDefinition final : public OpDefinition {
 public:
  explicit ConstantDefinition(std::vector<float> values)
      : values_(std::make_shared<const std::vector<float>>(std::move(values))) {}
  std::string_view type() const override { return "constant"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<ConstantCpu>(values_, tensors); },
        [&] { return make_constant_cuda(*values_, context, tensors); });
  }

 private:
  std::shared_ptr<const std::vector<float>> values_;
};

/// Errors: failed (an extent is not positive, or the product is not the number of values).
void check_count(const std::string& name, const ConstantParams& params) {
  std::int64_t count = 1;
  for (const std::int64_t extent : params.shape) {
    if (extent <= 0 || __builtin_mul_overflow(count, extent, &count)) {
      fail(ExitCode::failed, "constant {}: the extents are not positive, or too large", name);
    }
  }
  const std::size_t values = params.values.size();
  if (values != 1 && values != static_cast<std::size_t>(count)) {
    fail(ExitCode::failed, "constant {}: there are {} values for {} elements", name, values, count);
  }
}

}  // namespace

const OpType constant_op{
    .name = "constant",
    .input_count = 0,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      return outputs_of(constant(graph, name, params_of<ConstantParams>(attributes)));
    }};

Value constant(Graph& graph, const std::string& name, const ConstantParams& params) {
  check_count(name, params);
  std::vector<std::int64_t> extents = params.shape;
  extents.insert(extents.begin(), graph.batch_size());
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ConstantDefinition>(params.values),
                       .inputs = {},
                       .traits = {.samples_are_independent = true},
                       .type = &constant_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
