#include "kernels/reshape/reshape.h"

#include "carillon/core/error.h"

namespace carillon {
namespace {

class NoWork final : public Op {
 public:
  void forward(Stream& /*stream*/) override {}
  void backward(Stream& /*stream*/) override {}
};

class ReshapeDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "reshape"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> output_shares_input(int /*output*/) const override { return 0; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& /*context*/, const OpTensors& /*tensors*/) const override {
    return std::make_unique<NoWork>();
  }
};

/// The shape of the result. Errors: as reshape.
Shape reshaped(const std::string& name, const Shape& x, const ReshapeParams& params) {
  std::vector<std::int64_t> extents{x[0]};
  std::int64_t known = 1;
  std::size_t open = 0;  // the axis whose extent is computed; 0: none
  const auto refuse = [&] {
    fail(ExitCode::failed, "reshape {}: the extents {} do not fit the shape {}", name, Shape(params.extents).text(),
         x.text());
  };
  for (const std::int64_t extent : params.extents) {
    const bool is_open = extent == -1;
    if ((is_open && open > 0) || (!is_open && extent <= 0)) refuse();
    if (is_open) open = extents.size();
    if (!is_open && __builtin_mul_overflow(known, extent, &known)) refuse();
    extents.push_back(extent);
  }
  const std::int64_t count = x.elements_per_sample();
  if (open > 0) extents[open] = count / known;
  if (open > 0 ? count % known != 0 : count != known) refuse();
  return Shape(std::move(extents));
}

}  // namespace

const OpType reshape_op = op_type<ReshapeParams, reshape>("reshape");

Value reshape(Graph& graph, const std::string& name, Value x, const ReshapeParams& params) {
  Shape shape = reshaped(name, graph.shape(x), params);
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ReshapeDefinition>(),
                       .inputs = {x},
                       .type = &reshape_op,
                       .attributes = attributes_of(params)},
                      std::move(shape));
}

}  // namespace carillon
