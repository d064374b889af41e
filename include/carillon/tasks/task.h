// Task: defines the training objective: the target of each sample, the loss, and the metric of an evaluation.
//
// Tasks and networks are independent of each other. The engine handles targets as bytes with the type and shape that
// the task states. It compares evaluations by the task's score.
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

/// The inputs of a loss.
struct LossInputs {
  Value output;                ///< the network's output, [batch, outputs]
  Value target;                ///< [batch, TargetSpec::shape], of type TargetSpec::type
  const MixingParams& mixing;  ///< mixing of the images; the loss mixes targets in the same way, or throws
};

/// Adds the loss to the graph and returns it: a float32 scalar, the mean over the batch. Errors: usage (samples are
/// mixed and the loss cannot mix targets).
using LossFunction = std::function<Value(Graph& graph, const LossInputs& inputs)>;

struct Task {
  TargetSpec target;
  std::int64_t outputs = 0;  ///< elements of the network's output per sample
  LossFunction loss;
  std::string loss_name;  ///< name of the loss without L2 in logs, e.g. "mean_squared_error"
  /// Returns the target of one sample as text, for messages.
  std::function<std::string(std::span<const std::byte> target)> describe_target;
  MakeMetric make_metric;
  std::string score;  ///< name of the Score that selects the best checkpoint and may stop training early
  bool higher_is_better = true;
};

}  // namespace carillon
