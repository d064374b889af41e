#include "kernels/constant/constant.h"

#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class ConstantDefinition final : public OpDefinition {
 public:
  explicit ConstantDefinition(std::vector<float> values)
      : values_(std::make_shared<const std::vector<float>>(std::move(values))) {}
  std::string_view type() const override { return "constant"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_constant_cpu(values_, tensors); },
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
