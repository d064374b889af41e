#include "carillon/report/layer_summary.h"

#include <algorithm>
#include <cmath>

namespace carillon {
namespace {

constexpr std::int64_t most_images = 3;

}  // namespace

LayerSummarizer::LayerSummarizer(const Model& model, const ModelSettings& settings, std::int64_t batch_size,
                                 const ParameterStore& parameters, Device& device)
    : device_(device),
      graph_(batch_size, device.activation_type()),
      feed_(make_batch_feed(device, static_cast<std::size_t>(batch_size), model.schema.image_shape.bytes())) {
  model.build(graph_, settings);
  for (const Graph::Node& node : graph_.nodes()) {
    if (node.parameters.empty()) continue;
    const int output = node.outputs.front(), reader = graph_.values()[output].consumer;
    const bool relu_follows = reader >= 0 && graph_.nodes()[reader].definition->applies_relu_to_input();
    layers_.push_back({node.name, Value{output}, relu_follows});
  }
  executable_.emplace(graph_, device, parameters, false, results(), feed_->inputs());
}

/// The layers' outputs and the first op's, which is the network's input.
std::vector<Value> LayerSummarizer::results() const {
  std::vector<Value> values{Value{graph_.nodes().front().outputs.front()}};
  for (const Layer& layer : layers_) values.push_back(layer.output);
  return values;
}

LayerSummary LayerSummarizer::summarize(const Batch& batch) {
  feed_->set(executable_->inputs(), batch);
  executable_->forward(device_.stream());
  LayerSummary summary;
  for (const Layer& layer : layers_) {
    std::vector<float> activations = download_floats(device_, executable_->tensor(layer.output));
    if (layer.relu_follows) {
      for (float& value : activations) value = std::max(value, 0.0f);
    }
    summary.layers.push_back({layer.name, std::move(activations)});
  }
  const Tensor& input = executable_->tensor(results().front());
  const std::vector<float> values = download_floats(device_, input);
  const Shape& shape = input.shape;
  for (std::int64_t i = 0; i < std::min(most_images, shape[0]); ++i) {
    summary.images.push_back(picture_of(values.data() + i * shape.elements_per_sample(), shape[1], shape[2], shape[3]));
  }
  return summary;
}

Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels) {
  const std::int64_t count = height * width * channels;
  float lowest = 0.0f, largest = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, values[i]);
    largest = std::max(largest, std::abs(values[i]));
  }
  const float offset = lowest < 0.0f ? 128.0f : 0.0f;
  const float scale = largest < 1e-6f ? 0.0f : (lowest < 0.0f ? 127.0f : 255.0f) / largest;
  Picture picture{height, width, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(count))};
  for (std::int64_t i = 0; i < count; ++i) {
    picture.pixels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(values[i] * scale + offset);
  }
  return picture;
}

}  // namespace carillon
