#include "kernels/split/split.h"

#include <algorithm>
#include <numeric>

#include "carillon/core/error.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class SplitDefinition final : public OpDefinition {
 public:
  explicit SplitDefinition(SplitParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "split"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return make_split_cpu(params_, tensors); }, [&] { return make_split_cuda(params_, tensors); });
  }

 private:
  SplitParams params_;
};

}  // namespace

const OpType split_op = op_type<SplitParams, split>("split");

std::size_t split_axis(const SplitParams& params, const Shape& x) {
  const std::int64_t rank = static_cast<std::int64_t>(x.rank()), axis = params.axis == -1 ? rank - 1 : params.axis;
  if (axis < 1 || axis >= rank) fail(ExitCode::failed, "a tensor {} has no axis {} to split", x.text(), params.axis);
  return static_cast<std::size_t>(axis);
}

SplitRows split_rows(const SplitParams& params, const Shape& x) {
  const auto axis = static_cast<std::ptrdiff_t>(split_axis(params, x));
  const std::vector<std::int64_t>& extents = x.extents();
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t inner = product(extents.begin() + axis + 1, extents.end());
  SplitRows rows{.rows = product(extents.begin(), extents.begin() + axis),
                 .row_size = inner * x[static_cast<std::size_t>(axis)],
                 .parts = {}};
  std::int64_t offset = 0;
  for (const std::int64_t size : params.sizes) {
    rows.parts.push_back({.offset = offset, .size = size * inner});
    offset += size * inner;
  }
  return rows;
}

std::vector<Value> split(Graph& graph, const std::string& name, Value x, const SplitParams& params) {
  const Shape shape = graph.shape(x);
  const std::size_t axis = split_axis(params, shape);
  const auto is_positive = [](std::int64_t size) { return size > 0 && size <= max_attribute; };
  if (params.sizes.empty() || !std::ranges::all_of(params.sizes, is_positive) ||
      std::accumulate(params.sizes.begin(), params.sizes.end(), std::int64_t{0}) != shape[axis]) {
    fail(ExitCode::failed, "split {}: the sizes of the parts do not sum to {}, the extent of axis {}", name,
         shape[axis], axis);
  }
  std::vector<Shape> parts;
  for (const std::int64_t size : params.sizes) {
    std::vector<std::int64_t> extents = shape.extents();
    extents[axis] = size;
    parts.emplace_back(std::move(extents));
  }
  return graph.add_op_with_outputs({.name = name,
                                    .definition = std::make_shared<SplitDefinition>(params),
                                    .inputs = {x},
                                    .traits = {.samples_are_independent = true},
                                    .type = &split_op,
                                    .attributes = attributes_of(params)},
                                   std::move(parts));
}

}  // namespace carillon
