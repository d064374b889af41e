// Replay: a step's passes once more, op by op, to find what is the first to be infinite or NaN.
//
// It works on a copy of the variables, in memory of its own. Outputs and the gradients of activations are, bit for bit,
// those of a training step with the same variables and batch: an op that takes samples apart makes them alike from the
// whole batch (OpTraits::samples_are_independent), and random draws are functions of the stream position.
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

/// Where the first infinities or NaNs are.
struct NotFinite {
  std::string what;                  ///< "output of op layer1 (dense)"
  std::vector<std::size_t> samples;  ///< those of the batch that have such; none: what has no samples
  int after_ops = 0;                 ///< of the pass, that came before
};

class Replay {
 public:
  /// `settings` are for a training, `parameters` and `buffers` of one of the same network. `device` and `towers`
  /// outlive this; with `towers`, all of them replay at once.
  Replay(const Network& network, const Task& task, const BuildSettings& settings, const ParameterStore& parameters,
         const BufferStore& buffers, Device& device, TowerLink* towers = nullptr);

  /// In a variable, or else in the outputs of the ops, as they follow each other.
  std::optional<NotFinite> forward(const Batch& batch);
  /// After that: in the gradients of the loss, in the order in which the ops make them.
  std::optional<NotFinite> backward();

 private:
  std::optional<NotFinite> look_at_outputs(const Graph::Node& node) const;
  std::optional<NotFinite> look_at_gradients(const Graph::Node& node) const;
  std::optional<NotFinite> look(const Tensor& tensor, std::string what) const;

  Device& device_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  ParameterStore parameters_;
  BufferStore buffers_;
  Executable executable_;
};

}  // namespace carillon
