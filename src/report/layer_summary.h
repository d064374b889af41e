// LayerSummary: what a network's layers make of a batch, for TensorBoard.
//
// A second executable of the same network and variables computes it: the training's own memory plan need not keep every
// activation, and a summary every 100 steps costs a forward pass.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/models/network.h"
#include "src/graph/executable.h"
#include "src/report/event_writer.h"
#include "src/step/input/input_stage.h"

namespace carillon {

struct LayerSummary {
  struct Layer {
    std::string name;
    std::vector<float> activations;  ///< after the ReLU, where the layer has one
  };
  std::vector<Layer> layers;    ///< those with variables, in the network's order
  std::vector<Picture> images;  ///< the first of the batch as the network sees them, scaled to 0..255
};

class LayerSummarizer {
 public:
  /// `parameters` and `buffers`, of a graph of the same network, and `device` outlive the summarizer.
  /// `settings` are for a summary.
  LayerSummarizer(const Network& network, const BuildSettings& settings, const ParameterStore& parameters,
                  const BufferStore& buffers, Device& device);

  LayerSummary summarize(const Batch& batch);

 private:
  Device& device_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  Executable executable_;
};

/// A float image [height, width, channels] as TensorBoard shows it: 0 to the largest value as 0..255, or, with negative
/// values, 0 as 128 and the largest magnitude as 127 more or less (TensorFlow's image summary).
Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace carillon
