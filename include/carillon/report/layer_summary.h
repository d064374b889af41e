// LayerSummary: what a network's layers make of a batch, for TensorBoard.
//
// A second executable of the same model and variables computes it: the training's own memory plan need not keep every
// activation, and a summary every 100 steps costs a forward pass.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/graph/executable.h"
#include "carillon/models/model.h"
#include "carillon/report/event_writer.h"
#include "carillon/step/driver.h"

namespace carillon {

struct LayerSummary {
  struct Layer {
    std::string name;
    std::vector<float> activations;  ///< after the ReLU, where the layer has one
  };
  std::vector<Layer> layers;    ///< those with variables, in the model's order
  std::vector<Picture> images;  ///< the first of the batch as the network sees them, scaled to 0..255
};

class LayerSummarizer {
 public:
  /// `parameters`, of a graph of the same model, and `device` outlive the summarizer.
  LayerSummarizer(const Model& model, const ModelSettings& settings, std::int64_t batch_size,
                  const ParameterStore& parameters, Device& device);

  LayerSummary summarize(const Batch& batch);

 private:
  struct Layer {
    std::string name;
    Value output;
    bool relu_follows;  ///< the next op applies the layer's ReLU
  };
  std::vector<Value> results() const;

  Device& device_;
  Graph graph_;
  std::vector<Layer> layers_;
  std::unique_ptr<BatchFeed> feed_;
  std::optional<Executable> executable_;
};

/// A float image [height, width, channels] as TensorBoard shows it: 0 to the largest value as 0..255, or, with negative
/// values, 0 as 128 and the largest magnitude as 127 more or less (TensorFlow's image summary).
Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace carillon
