// Model: a network by name, as functions that build it into a graph. Nothing in it knows of ranks or devices.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "carillon/data/decoder.h"
#include "carillon/graph/graph.h"

namespace carillon {

/// What a user can set about a network.
struct ModelSettings {
  float pixel_scale = 1.0f;     ///< multiplies the uint8 pixels
  float regularization = 0.0f;  ///< L2 factor of the weight matrices that have one
  bool distort = false;         ///< random distortion of the images, where the model has one: for training only
  std::uint64_t seed = 0;       ///< of the distortion
};

/// What a run tells TensorBoard, under the tags of the program that the network is from.
enum class SummaryStyle {
  variables,  ///< histograms `<variable>`, `gradients_on_average/<variable>`; scalars `loss` and its parts
  layers,     ///< histograms `<variable>`, `<variable>/gradients`, `<layer>/activations`; scalars `total_loss` and its
              ///< parts, `<layer>/weight_loss`, `<layer>/sparsity`; example images
};

struct Model {
  std::string_view name;  ///< as in `--model` and in checkpoints
  RecordSchema schema;    ///< of the records it is trained on, in the form that `make_decoder` reads
  /// Builds records -> logits [batch, classes].
  Value (*build)(Graph& graph, const ModelSettings& settings);
  SummaryStyle summary_style = SummaryStyle::variables;
  std::unique_ptr<RecordDecoder> (*make_decoder)(RecordSchema schema) = make_grey_decoder;
};

/// Every model there is.
std::span<const Model> models();

/// Errors: usage, listing the names there are.
const Model& model_named(std::string_view name);

}  // namespace carillon
