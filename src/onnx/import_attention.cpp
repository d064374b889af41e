// Finds attention in an ONNX file. There, attention is a chain of several operators: parts of the outputs of dense
// layers, a product, a softmax and a second product. The op `attention` computes the chain in one pass over memory.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layout/layout.h"
#include "kernels/matmul/matmul.h"
#include "kernels/softmax/softmax.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

struct Axis {
  std::int64_t extent = 1, stride = 1;
  bool operator==(const Axis&) const = default;
};

/// A tensor that only selects, reorders and scales elements of `source`. In each sample, the element (i_0, i_1, ...) is
/// factor * source[offset + sum of i_k * axes[k].stride].
struct View {
  Value source;
  std::vector<Axis> axes;  ///< of a sample, outermost first
  std::int64_t offset = 0;
  float factor = 1.0f;
};

View whole(const Graph& graph, Value value) {
  const Extents& extents = graph.shape(value).extents();
  View view{.source = value, .axes = std::vector<Axis>(extents.size() - 1)};
  std::int64_t stride = 1;
  for (std::size_t i = view.axes.size(); i-- > 0; stride *= extents[i + 1]) view.axes[i] = {extents[i + 1], stride};
  return view;
}

/// Joins neighbouring axes if one axis can address their elements. Omits axes of extent 1.
std::vector<Axis> joined(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty() && result.back().stride == axis.extent * axis.stride) {
      result.back() = {result.back().extent * axis.extent, axis.stride};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

/// Divides the axes of a view into axes of other extents. Returns false if strides cannot describe the result.
bool reshape_view(View& view, std::span<const std::int64_t> extents) {
  std::vector<Axis> rest = joined(view.axes), axes(extents.size());
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == 1) continue;
    if (rest.empty() || rest.back().extent % extents[i] != 0) return false;
    axes[i] = {extents[i], rest.back().stride};
    rest.back().extent /= extents[i];
    rest.back().stride *= extents[i];
    if (rest.back().extent == 1) rest.pop_back();
  }
  view.axes = std::move(axes);
  return rest.empty();
}

/// Selects elements of an axis: the elements first, first + step, ...
void select(View& view, std::size_t axis, std::int64_t first, std::int64_t count, std::int64_t step = 1) {
  view.offset += first * view.axes[axis].stride;
  view.axes[axis] = {count, step * view.axes[axis].stride};
}

/// Changes a view of the input of `node` to a view of output number `output` of `node`. Returns false if the op does
/// more than select, reorder and scale elements.
bool follow(const Graph& graph, const Graph::Node& node, std::size_t output, View& view) {
  const Shape& input = graph.values()[node.inputs[0]].shape;
  if (node.type == &reshape_op) {
    return reshape_view(view, std::span(graph.values()[node.outputs[0]].shape.extents()).subspan(1));
  }
  if (node.type == &transpose_op) {
    const std::vector<std::int64_t> order = params_of<TransposeParams>(node.attributes).axes;
    const std::vector<Axis> axes = view.axes;
    for (std::size_t i = 1; i < order.size(); ++i) view.axes[i - 1] = axes[static_cast<std::size_t>(order[i] - 1)];
    return true;
  }
  if (node.type == &split_op) {
    const auto params = params_of<SplitParams>(node.attributes);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < output; ++i) first += params.sizes[i];
    select(view, split_axis(params, input) - 1, first, params.sizes[output]);
    return true;
  }
  if (node.type == &slice_op) {
    const auto params = params_of<SliceParams>(node.attributes);
    select(view, slice_axis(params, input) - 1, params.first, params.count, params.step);
    return true;
  }
  if (node.type == &pad_op) {
    const auto params = params_of<PadParams>(node.attributes);
    for (std::size_t i = 0; i < params.before.size(); ++i) {
      if (params.before[i] > 0 || params.after[i] > 0) return false;
      select(view, i, -params.before[i], input[i + 1] + params.before[i] + params.after[i]);
    }
    return true;
  }
  if (node.type == &scale_op) {
    view.factor *= params_of<ScaleParams>(node.attributes).factor;
    return true;
  }
  return false;
}

/// Returns `value` as a view of the earliest possible source.
View view_of(const Graph& graph, Value value) {
  constexpr std::size_t most = 16;  // ops; bounds the work for files with long chains
  std::vector<Value> chain{value};
  while (chain.size() < most) {
    const Graph::ValueInfo& info = graph.values()[chain.back().index];
    if (info.producer < 0 || graph.nodes()[info.producer].inputs.size() != 1) break;
    chain.push_back({graph.nodes()[info.producer].inputs[0]});
  }
  View view = whole(graph, chain.back());
  for (std::size_t i = chain.size() - 1; i-- > 0;) {
    const Graph::Node& node = graph.nodes()[graph.values()[chain[i].index].producer];
    const auto output =
        static_cast<std::size_t>(std::ranges::find(node.outputs, chain[i].index) - node.outputs.begin());
    if (!follow(graph, node, output, view)) view = whole(graph, chain[i]);
  }
  return view;
}

/// Like the overload above, but with the axes in the order of the file.
View view_of(const Graph& graph, const Placed& placed) {
  View view = view_of(graph, placed.value);
  std::vector<Axis> axes(placed.rank() - 1);
  for (std::size_t i = 1; i < placed.rank(); ++i) {
    if (placed.axes[i] > 0) axes[i - 1] = view.axes[static_cast<std::size_t>(placed.axes[i] - 1)];
  }
  view.axes = std::move(axes);
  return view;
}

/// True if the view is [heads, tokens, head size], and a token's row is `row` elements long in the source.
bool are_heads(const View& view, const AttentionShape& shape, std::int64_t row) {
  const std::vector<Axis> expected{
      {shape.heads, shape.head_size()}, {shape.tokens, row}, {shape.head_size(), std::int64_t{1}}};
  if (view.axes.size() != expected.size()) return false;
  return std::ranges::equal(view.axes, expected,
                            [](const Axis& a, const Axis& b) { return a == b || (a.extent == 1 && b.extent == 1); });
}

}  // namespace

std::optional<Placed> Importer::fused_attention(const OnnxNode& node, const Placed& probabilities, const Placed& v) {
  if (probabilities.rank() != 4 || stored_order(probabilities) != ascending(4) || v.axes[0] != 0 ||
      v.batch != BatchInFile::separate)
    return std::nullopt;
  const auto producer = [this](Value value) {
    const int op = graph_.values()[value.index].producer;
    return op < 0 ? nullptr : &graph_.nodes()[op];
  };
  const Graph::Node* op = producer(probabilities.value);
  if (op == nullptr || op->type != &softmax_op) return std::nullopt;
  op = producer({op->inputs[0]});
  float factor = 1.0f;
  if (op != nullptr && op->type == &scale_op) {  // some exporters scale the scores, others q and k
    factor = params_of<ScaleParams>(op->attributes).factor;
    op = producer({op->inputs[0]});
  }
  if (op == nullptr || op->type != &matmul_op) return std::nullopt;
  const auto product = params_of<MatmulParams>(op->attributes);
  View parts[] = {view_of(graph_, Value{op->inputs[0]}), view_of(graph_, Value{op->inputs[1]}), view_of(graph_, v)};
  if (std::ranges::any_of(parts, [](const View& part) { return part.axes.size() != 3; })) return std::nullopt;
  if (product.transpose_a) std::swap(parts[0].axes[1], parts[0].axes[2]);
  if (!product.transpose_b) std::swap(parts[1].axes[1], parts[1].axes[2]);

  const AttentionShape shape(Shape{1, v.shape[2], v.shape[1] * v.shape[3]}, {.heads = v.shape[1]});
  factor *= parts[0].factor * parts[1].factor / shape.scale();
  if (parts[2].factor != 1.0f || !std::isfinite(factor)) return std::nullopt;

  // One dense layer computes queries, keys and values: a token's row has all of them.
  const auto is_third = [&](int i) {
    return parts[i].source == parts[0].source && parts[i].offset == i * shape.width &&
           are_heads(parts[i], shape, 3 * shape.width);
  };
  const bool is_one_layer = is_third(0) && is_third(1) && is_third(2) && std::abs(factor - 1.0f) < 1e-4f &&
                            graph_.shape(parts[0].source).elements_per_sample() == 3 * shape.tokens * shape.width;
  // Three dense layers compute queries, keys and values.
  const auto is_layer = [&](const View& part) {
    return part.offset == 0 && are_heads(part, shape, shape.width) &&
           graph_.shape(part.source).elements_per_sample() == shape.tokens * shape.width;
  };
  if (!is_one_layer && !std::ranges::all_of(parts, is_layer)) return std::nullopt;

  const std::string name = op_name(node, "/attention");
  const auto rows = [&](Value value, std::int64_t width, std::string_view part) {
    if (graph_.shape(value).rank() == 3 && graph_.shape(value)[2] == width) return value;
    return reshape(graph_, unique_name(name + std::string(part)), value, {{shape.tokens, width}});
  };
  Value qkv;
  if (is_one_layer) {
    qkv = rows(parts[0].source, 3 * shape.width, "/qkv");
  } else {
    Value q = rows(parts[0].source, shape.width, "/q");
    if (std::abs(factor - 1.0f) >= 1e-4f) q = scale(graph_, unique_name(name + "/scale"), q, factor);
    const Value layers[] = {q, rows(parts[1].source, shape.width, "/k"), rows(parts[2].source, shape.width, "/v")};
    qkv = concat(graph_, unique_name(name + "/qkv"), layers);
  }
  const Value y = attention(graph_, name, qkv, {.heads = shape.heads});
  const Value heads =
      reshape(graph_, unique_name(name + "/heads"), y, {{shape.tokens, shape.heads, shape.head_size()}});
  return placed(heads, v.shape, {0, 2, 1, 3});
}

}  // namespace carillon
