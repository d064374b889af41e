// Replay: repeats the passes of a step op by op to find the first value that is infinite or NaN.
//
// It works on a copy of the variables in its own memory. Outputs and gradients of activations are bit for bit equal to
// those of the training step. An op with independent samples (OpTraits::samples_are_independent) computes equal values
// from the whole batch, and random draws are functions of the stream position.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/models/network.h"
#include "src/graph/executable.h"
#include "src/step/input/input_stage.h"

namespace carillon {

/// The first value with infinities or NaNs.
struct NotFinite {
  std::string what;                  ///< "output of op layer1 (dense)"
  std::vector<std::size_t> samples;  ///< affected samples of the batch; empty: a value without samples
  int after_ops = 0;                 ///< ops of the pass before it
};

class Replay {
 public:
  /// `settings`: with Purpose::training. `parameters` and `buffers`: of the same network. `device` and `towers` outlive
  /// this. With `towers`, all ranks replay together.
  Replay(const Network& network, const Task& task, const BuildSettings& settings, const ParameterStore& parameters,
         const BufferStore& buffers, Device& device, TowerLink* towers = nullptr);

  /// Searches the variables, then the outputs of the ops in order.
  std::optional<NotFinite> forward(const Batch& batch);
  /// After `forward`: searches the gradients in the order in which the ops compute them.
  std::optional<NotFinite> backward();

 private:
  std::optional<NotFinite> search_outputs(const Graph::Node& node) const;
  std::optional<NotFinite> search_gradients(const Graph::Node& node) const;
  std::optional<NotFinite> search(const Tensor& tensor, std::string what) const;

  Device& device_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  ParameterStore parameters_;
  BufferStore buffers_;
  Executable executable_;
};

}  // namespace carillon
