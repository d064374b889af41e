// Ends a run after a loss that is not finite, and reports the cause (--on-nan report).
//
// The step did not update the variables (graph/step_inputs.h), so each rank can replay its part of the step. One rank
// reports the cause: the rank with the earliest infinity or NaN in the forward pass. If all values of the forward pass
// are finite, the rank with the earliest infinity or NaN in the backward pass reports. If several ranks tie, the lowest
// rank reports. Ranks tie, for example, if a synchronised batch norm spreads a NaN of one rank to all ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/data/dataset.h"
#include "carillon/models/network.h"
#include "src/comm/mpi/mpi.h"
#include "src/graph/executable.h"
#include "src/step/input/input_stage.h"
#include "src/step/tower.h"

namespace carillon {

/// The first tensor of a pass that contains an infinity or a NaN.
struct NotFinite {
  std::string what;                  ///< "output of op layer1 (dense)"
  std::vector<std::size_t> samples;  ///< the affected samples of the batch; empty: the tensor has no samples
  int after_ops = 0;  ///< number of ops that the pass had run when the tensor was found, including the op that computed
                      ///< it; 0: a variable
};

/// Repeats the passes of a step op by op to find the first value that is infinite or NaN.
///
/// Replay works on a copy of the variables in its own memory. The outputs and the gradients of activations equal the
/// values in the training step, bit for bit. There are two reasons. First, an op with independent samples
/// (OpTraits::samples_are_independent) computes the same values from the whole batch and from a part of it. Second,
/// random draws are functions of the stream position.
class Replay {
 public:
  /// `settings`: must have Purpose::training. `parameters` and `buffers`: must belong to `network`. `device` and
  /// `towers` outlive this object. If `towers` is not null, all ranks replay together.
  Replay(const Network& network, const Task& task, const BuildSettings& settings, const ParameterStore& parameters,
         const BufferStore& buffers, Device& device, TowerLink* towers = nullptr);

  /// Runs the forward pass. Searches the variables, then the outputs of the ops in the order of the pass. Returns
  /// nullopt if all values are finite.
  std::optional<NotFinite> forward(const Batch& batch);
  /// Call it after `forward`. Runs the backward pass and searches the gradients in the order in which the ops compute
  /// them. Returns nullopt if all values are finite.
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

/// The step with the non-finite loss. This step was the last step, and it changed no variables.
struct DivergedStep {
  const Tower& tower;
  Device& device;
  BuildSettings settings;  ///< settings of the tower's graph
  const Batch& batch;      ///< this rank's batch
  const Dataset& dataset;  ///< contains the batch's records
};

/// Returns, for example, "Model diverged with loss = NaN at step 5".
std::string nonfinite_line(std::int64_t step, double loss);

/// Throws failed on all ranks. The message contains `line`, the first op with a value that is not finite, and the
/// samples with such values. Collective.
[[noreturn]] void fail_with_cause(const std::string& line, const DivergedStep& step, const Mpi& mpi);
/// Does the same as fail_with_cause for a step with a finite task loss and an L2 loss that is not finite.
[[noreturn]] void fail_with_l2_cause(const std::string& line, const Tower& tower, Device& device, const Mpi& mpi);

}  // namespace carillon
