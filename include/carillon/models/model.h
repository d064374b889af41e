// Model: a network by name, as functions that build it into a graph. Nothing in it knows of ranks or devices.
#pragma once

#include <span>
#include <string_view>

#include "carillon/data/dataset.h"
#include "carillon/graph/graph.h"

namespace carillon {

/// What a user can set about a network.
struct ModelSettings {
  float pixel_scale = 1.0f;     ///< multiplies the uint8 pixels
  float regularization = 0.0f;  ///< L2 factor of the weight matrices that have one
  bool distort = false;         ///< random distortion of the images, where the model has one: for training only
  std::uint64_t seed = 0;       ///< of the distortion
};

struct Model {
  std::string_view name;  ///< as in `--model` and in checkpoints
  RecordSchema schema;    ///< of the records it is trained on
  /// Builds records -> logits [batch, classes].
  Value (*build)(Graph& graph, const ModelSettings& settings);
};

/// Every model there is.
std::span<const Model> models();

/// Errors: usage, listing the names there are.
const Model& model_named(std::string_view name);

}  // namespace carillon
