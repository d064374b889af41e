// Imports ONNX's norms: batch, layer, instance and group norms.
#include <algorithm>
#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "src/onnx/importer.h"

namespace carillon {
namespace {

void add_batch_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const OnnxConstant gamma = importer.floats(node, 1), beta = importer.floats(node, 2), mean = importer.floats(node, 3),
                     variance = importer.floats(node, 4);
  if (node.integer("training_mode", 0) != 0)
    importer.refuse(node, "normalises by the statistics of the batch in evaluations, too, which is not supported");
  const auto channels = static_cast<int>(importer.axis(node, channel_axis, x));
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(x.rank()); ++axis) {
    if (axis != channels && x.axes[static_cast<std::size_t>(axis)] >= 0) order.push_back(axis);
  }
  order.push_back(channels);
  const std::string name = importer.layer_name(node, *gamma);
  // ONNX's momentum is the weight of the old value. The rounding turns 1 - 0.9f into 0.1.
  const double momentum = std::round((1.0 - static_cast<double>(node.number("momentum", 0.9f))) * 1e6) / 1e6;
  const Value images = importer.arranged(node, x, order);
  importer.give(name + "/gamma", *gamma);
  importer.give(name + "/beta", *beta);
  importer.give_buffer(name + "/moving_mean", *mean);
  importer.give_buffer(name + "/moving_variance", *variance);
  const Value value = batch_norm(importer.graph(), name, images,
                                 {.epsilon = node.number("epsilon", 1e-5f), .momentum = static_cast<float>(momentum)});
  importer.set_output(node, Importer::placed(value, x.shape, order, x.batch));
}

void add_layer_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  if (importer.axis(node, node.integer("axis", -1), x) + 1 != x.rank())
    importer.refuse(node, "normalises several axes, which is not supported");
  const OnnxConstant gamma = importer.floats(node, 1);
  const OnnxConstant beta = node.input(2).empty() ? nullptr : importer.floats(node, 2);
  const std::string name = importer.layer_name(node, *gamma);
  const Placed rows = importer.with_last(node, x, static_cast<int>(x.rank()) - 1);
  importer.give(name + "/gamma", *gamma);
  if (beta) importer.give(name + "/beta", *beta);
  const Value value = layer_norm(importer.graph(), name, rows.value, {.epsilon = node.number("epsilon", 1e-5f)});
  importer.set_output(node, with_value(rows, value));
}

/// Normalises each of `groups` groups of neighbouring channels of each sample to mean 0 and variance 1.
Placed normalized_groups(Importer& importer, const OnnxNode& node, const Placed& x, std::int64_t groups) {
  if (x.batch != BatchInFile::separate || x.rank() < 3 || !x.is_batch(0))
    importer.refuse(node, "normalises values that are no images or rows, which is not supported");
  const std::int64_t channels = x.shape[channel_axis];
  if (groups < 1 || channels % groups != 0) importer.refuse(node, "has groups that do not divide the channels");
  Graph& graph = importer.graph();
  const int group_axis = groups > 1 ? x.axes[channel_axis] : -1;
  const Extents whole(graph.shape(x.value).extents().begin() + 1, graph.shape(x.value).extents().end());
  Extents extents = whole;
  Value value = x.value;
  const bool divides = groups > 1 && groups < channels;
  if (divides) {
    extents[static_cast<std::size_t>(group_axis - 1)] = groups;
    extents.insert(extents.begin() + group_axis, channels / groups);
    value = reshape(graph, importer.op_name(node, "/groups"), value, {.extents = extents});
  }
  MeanParams reduced{.axes = {}, .keeps_axes = true};
  for (int axis = 1; axis <= static_cast<int>(extents.size()); ++axis) {
    if (axis != group_axis) reduced.axes.push_back(axis);
  }
  if (reduced.axes.empty()) importer.refuse(node, "normalises single elements, which is not supported");
  const auto name = [&](std::string_view part) { return importer.op_name(node, part); };
  const Value average = mean(graph, name("/mean"), value, reduced);
  const Value centred = add(graph, name("/centred"), value, scale(graph, name("/negative"), average, -1.0f));
  const Value variance = mean(graph, name("/variance"), multiply(graph, name("/squares"), centred, centred), reduced);
  const Value deviation =
      sqrt(graph, name("/deviation"), shift(graph, name("/shifted"), variance, node.number("epsilon", 1e-5f)));
  Value y = multiply(graph, name("/normalized"), centred, reciprocal(graph, name("/inverse"), deviation));
  if (divides) y = reshape(graph, name("/channels"), y, {.extents = whole});
  return with_value(x, y);
}

/// Multiplies each channel by an element of input 1, then adds an element of input 2.
Placed with_scales(Importer& importer, const OnnxNode& node, Placed x) {
  for (const int input : {1, 2}) {
    OnnxArray array = *importer.floats(node, input);
    const float neutral = input == 1 ? 1.0f : 0.0f;
    const bool is_neutral = std::ranges::all_of(array.floats, [&](float value) { return value == neutral; });
    if (is_neutral && array.name.empty()) continue;
    const std::int64_t count = array.element_count();
    if (count != x.shape[channel_axis]) importer.refuse(node, "needs a scale and a bias for each channel");
    array.shape.assign(x.rank() - 1, 1);
    array.shape[0] = count;
    const std::vector<int> order = stored_order(x);
    const Placed values = importer.variable(node, array, x.rank(), order);
    const Value aligned = importer.arranged(node, values, order);
    const std::string name = importer.op_name(node, input == 1 ? "/scale" : "/shift");
    x.value =
        input == 1 ? multiply(importer.graph(), name, x.value, aligned) : add(importer.graph(), name, x.value, aligned);
  }
  return x;
}

/// Normalises each channel of each sample, or groups of channels that a Reshape before the node makes.
void add_instance_norm(Importer& importer, const OnnxNode& node) {
  const Placed& x = importer.input(node);
  const auto groups = importer.groups_of_reader.find(node.input(0));
  if (groups != importer.groups_of_reader.end()) {  // here all scales are 1 and all biases are 0
    return importer.set_output(node, normalized_groups(importer, node, x, groups->second));
  }
  if (x.rank() < 3) importer.refuse(node, "has no axes besides channels");
  const Placed y = normalized_groups(importer, node, x, x.shape[channel_axis]);
  importer.set_output(node, with_scales(importer, node, y));
}

void add_group_norm(Importer& importer, const OnnxNode& node) {
  const Placed y = normalized_groups(importer, node, importer.input(node), node.integer("num_groups", 1));
  importer.set_output(node, with_scales(importer, node, y));
}

constexpr Operator operators[] = {{"BatchNormalization", add_batch_norm},
                                  {"GroupNormalization", add_group_norm},
                                  {"InstanceNormalization", add_instance_norm},
                                  {"LayerNormalization", add_layer_norm}};

}  // namespace

std::span<const Operator> norm_operators() { return operators; }

}  // namespace carillon
