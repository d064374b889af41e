// The definition of gather, and the op on a CPU, which loops over the rows of the result.
#include "kernels/gather/gather.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/gather/gather_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

/// Writes row `row` of the result. from: [columns, inner], to: [inner].
template <typename T>
void write_row(const WeightedRows& rows, std::int64_t row, const T* from, T* to) {
  const auto begin = static_cast<std::size_t>(rows.offsets[static_cast<std::size_t>(row)]);
  const auto end = static_cast<std::size_t>(rows.offsets[static_cast<std::size_t>(row) + 1]);
  const auto term_at = [&](std::size_t term) { return from + rows.indices[term] * rows.inner; };
  if (end == begin + 1 && rows.weights[begin] == 1.0f) {
    std::copy_n(term_at(begin), rows.inner, to);
    return;
  }
  constexpr std::int64_t block = 256;
  float sums[block];
  for (std::int64_t first = 0; first < rows.inner; first += block) {
    const std::int64_t count = std::min(block, rows.inner - first);
    std::fill_n(sums, count, 0.0f);
    for (std::size_t term = begin; term < end; ++term) {
      const T* const values = term_at(term) + first;
      const float weight = rows.weights[term];
      for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * to_float(values[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) to[first + i] = stored_as<T>(sums[i]);
  }
}

void multiply(const WeightedRows& rows, const Tensor& from, const Tensor& to) {
  const std::int64_t count = to.shape.element_count() / rows.inner;
  with_float_type(to.type, [&]<typename T>(std::type_identity<T>) {
    parallel_items(static_cast<std::size_t>(count), static_cast<std::size_t>(rows.inner), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (auto i = static_cast<std::int64_t>(first); i < static_cast<std::int64_t>(last); ++i) {
                       const std::int64_t outer = i / rows.rows;
                       write_row(rows, i - outer * rows.rows,
                                 static_cast<const T*>(from.data) + outer * rows.columns * rows.inner,
                                 static_cast<T*>(to.data) + i * rows.inner);
                     }
                   });
  });
}

using Matrix = std::shared_ptr<const WeightedRows>;

class GatherCpu final : public Op {
 public:
  GatherCpu(Matrix forward, Matrix backward, const OpTensors& tensors)
      : forward_(std::move(forward)), backward_(std::move(backward)), tensors_(tensors) {}

  void forward(Stream& /*stream*/) override { multiply(*forward_, tensors_.inputs[0], tensors_.outputs[0]); }
  void backward(Stream& /*stream*/) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (dx) multiply(*backward_, tensors_.output_gradients[0], dx);
  }

 private:
  Matrix forward_, backward_;
  OpTensors tensors_;
};

class GatherDefinition final : public OpDefinition {
 public:
  GatherDefinition(WeightedRows forward, WeightedRows backward)
      : forward_(std::make_shared<const WeightedRows>(std::move(forward))),
        backward_(std::make_shared<const WeightedRows>(std::move(backward))) {}
  std::string_view type() const override { return "gather"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<GatherCpu>(forward_, backward_, tensors); },
        [&] { return make_gather_cuda(*forward_, *backward_, context, tensors); });
  }

 private:
  Matrix forward_, backward_;
};

/// One term of the matrix.
struct Term {
  std::int64_t row = 0, column = 0;
  float weight = 1.0f;
};

/// Returns the matrix. `terms` are sorted by row.
WeightedRows matrix(std::int64_t rows, std::int64_t columns, std::int64_t inner, const std::vector<Term>& terms) {
  WeightedRows made{.rows = rows, .columns = columns, .inner = inner, .offsets = {0}, .indices = {}, .weights = {}};
  std::size_t at = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (; at < terms.size() && terms[at].row == row; ++at) {
      made.indices.push_back(static_cast<std::int32_t>(terms[at].column));
      made.weights.push_back(terms[at].weight);
    }
    made.offsets.push_back(static_cast<std::int32_t>(at));
  }
  return made;
}

/// Returns the terms of the matrix that the params describe, sorted by row. Errors: the errors of gather.
std::vector<Term> terms_of(const std::string& name, const GatherParams& params, std::int64_t extent) {
  const std::size_t count = params.indices.size();
  if (count == 0 || params.terms < 1 || count % static_cast<std::size_t>(params.terms) != 0) {
    fail(ExitCode::failed, "gather {}: {} indices do not make rows of {} terms", name, count, params.terms);
  }
  if (!params.weights.empty() && params.weights.size() != count) {
    fail(ExitCode::failed, "gather {}: there are {} weights for {} indices", name, params.weights.size(), count);
  }
  std::vector<Term> terms;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t index = params.indices[i];
    const float weight = params.weights.empty() ? 1.0f : params.weights[i];
    if (index < -1 || index >= extent || !std::isfinite(weight)) {
      fail(ExitCode::failed, "gather {}: the index {} or its weight is not valid for an axis of {} elements", name,
           index, extent);
    }
    if (index >= 0) terms.push_back({static_cast<std::int64_t>(i) / params.terms, index, weight});
  }
  return terms;
}

}  // namespace

const OpType gather_op = op_type<GatherParams, gather>("gather");

std::size_t gather_axis(const GatherParams& params, const Shape& x) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  const std::int64_t axis = params.axis == -1 ? rank - 1 : params.axis;
  if (axis < 1 || axis >= rank) {
    fail(ExitCode::failed, "gather: a tensor {} has no axis {} besides the batch", x.text(), params.axis);
  }
  return static_cast<std::size_t>(axis);
}

Value gather(Graph& graph, const std::string& name, Value x, const GatherParams& params) {
  const Shape shape = graph.shape(x);
  const std::size_t axis = gather_axis(params, shape);
  const std::int64_t extent = shape[axis];
  std::vector<Term> terms = terms_of(name, params, extent);
  const std::int64_t count = static_cast<std::int64_t>(params.indices.size()) / params.terms;
  std::int64_t inner = 1;
  for (std::size_t k = axis + 1; k < shape.rank(); ++k) inner *= shape[k];
  WeightedRows forward = matrix(count, extent, inner, terms);
  for (Term& term : terms) std::swap(term.row, term.column);
  std::ranges::stable_sort(terms, {}, &Term::row);
  WeightedRows backward = matrix(extent, count, inner, terms);
  std::vector<std::int64_t> extents = shape.extents();
  extents[axis] = count;
  return graph.add_op({.name = name,
                       .definition = std::make_shared<GatherDefinition>(std::move(forward), std::move(backward)),
                       .inputs = {x},
                       .traits = {.samples_are_independent = true},
                       .type = &gather_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
