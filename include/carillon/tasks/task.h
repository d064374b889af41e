// Task: what a network is trained for: the target of each sample, the loss, and the metric of an evaluation.
//
// A task knows nothing of networks, and a network knows nothing of tasks. The engine handles targets as bytes of the
// type and shape that the task states, and compares runs by the task's score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "carillon/core/target_spec.h"
#include "carillon/graph/graph.h"
#include "carillon/tasks/metric.h"

namespace carillon {

struct MixingParams;  // kernels/shared/mixing.h

/// What a loss is computed from.
struct LossInputs {
  Value output;                ///< of the network: [batch, outputs]
  Value target;                ///< [batch, TargetSpec::shape] of TargetSpec::type
  const MixingParams& mixing;  ///< how the images of the batch are mixed; a loss mixes the targets alike, or refuses
};

/// Adds the loss to the graph: a float32 scalar that is a mean over the batch. Errors: usage (mixed samples, if the
/// loss cannot mix targets).
using LossFunction = std::function<Value(Graph& graph, const LossInputs& inputs)>;

struct Task {
  TargetSpec target;
  std::int64_t outputs = 0;  ///< elements of the network's output for one sample
  LossFunction loss;
  std::string loss_name;  ///< of the loss without L2, in logs: "mean_squared_error"
  /// The target of one sample as text, for messages.
  std::function<std::string(std::span<const std::byte> target)> describe_target;
  MakeMetric make_metric;
  std::string score;  ///< the name of the Score that keep-best and stop-at compare
  bool higher_is_better = true;
};

}  // namespace carillon
