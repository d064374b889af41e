#include "src/report/layer_summary.h"

#include <algorithm>
#include <cmath>

namespace carillon {
namespace {

constexpr std::int64_t max_images = 3;

std::vector<Value> results_of(const BuiltNetwork& network) {
  std::vector<Value> values{network.input};
  for (const BuiltNetwork::Layer& layer : network.layers) values.push_back(layer.output);
  return values;
}

}  // namespace

LayerSummarizer::LayerSummarizer(const Network& network, const BuildSettings& settings,
                                 const ParameterStore& parameters, const BufferStore& buffers, Device& device)
    : device_(device),
      network_(build_network(network, settings)),
      input_stage_(make_input_stage(
          device, {.batch_size = static_cast<std::size_t>(settings.batch_size), .image_bytes = network.image.bytes()})),
      executable_(network_.graph, {device, parameters, buffers, input_stage_->inputs()}, false, results_of(network_)) {}

LayerSummary LayerSummarizer::summarize(const Batch& batch) {
  input_stage_->write(0, {.batch = batch});
  input_stage_->upload(0, 1, device_.stream());
  executable_.forward(device_.stream());
  LayerSummary summary;
  for (const BuiltNetwork::Layer& layer : network_.layers) {
    summary.layers.push_back({layer.name, download_floats(device_, executable_.tensor(layer.output))});
  }
  const Tensor& input = executable_.tensor(network_.input);
  const std::vector<float> values = download_floats(device_, input);
  const Shape& shape = input.shape;
  for (std::int64_t i = 0; i < std::min(max_images, shape[0]); ++i) {
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
