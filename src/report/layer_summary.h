// LayerSummary: the activations of a network's layers for one batch, for TensorBoard.
//
// A second executable of the same network and variables computes them. Therefore the memory plan of the training need
// not keep every activation. A summary costs one forward pass.
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
    std::vector<float> activations;  ///< after the ReLU if the layer has one
  };
  std::vector<Layer> layers;    ///< the layers with variables, in network order
  std::vector<Picture> images;  ///< the first images of the batch, as the network sees them, scaled to 0..255
};

class LayerSummarizer {
 public:
  /// `settings`: with Purpose::summary. `parameters` and `buffers` belong to a graph of the same network. They and
  /// `device` outlive the summarizer.
  LayerSummarizer(const Network& network, const BuildSettings& settings, const ParameterStore& parameters,
                  const BufferStore& buffers, Device& device);

  LayerSummary summarize(const Batch& batch);

 private:
  Device& device_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  Executable executable_;
};

/// A float image [height, width, channels] scaled as TensorFlow's image summary does. If no value is negative, the
/// range from 0 to the largest value becomes 0..255. Otherwise 0 becomes 128, and the largest magnitude becomes 128 +-
/// 127.
Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace carillon
