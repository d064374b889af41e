// Task: the target of a sample, the loss, and the metric of an evaluation.
//
// Tasks and networks are independent of each other. The library passes targets as bytes; the task states their type and
// shape. The library compares evaluations by the score that the task names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "carillon/core/sample.h"
#include "carillon/graph/graph.h"
#include "carillon/tasks/metric.h"

namespace carillon {

struct MixingParams;  // kernels/shared/mixing.h

/// The inputs of a loss.
struct LossInputs {
  Value output;  ///< the network's output, [batch, outputs]
  Value target;  ///< [batch, TargetSpec::shape], of type TargetSpec::type
  /// How the images of the batch are mixed with each other. If mixing.mixes(), the loss mixes the targets in the same
  /// way, or throws Error(usage).
  const MixingParams& mixing;
};

/// Adds the loss to the graph and returns it: a scalar, Shape{}, the mean over the batch. On a GPU, the op of the loss
/// must have OpTraits::writes_step_sums. Errors: usage (samples are mixed and the loss cannot mix targets).
using LossFunction = std::function<Value(Graph& graph, const LossInputs& inputs)>;

struct Task {
  TargetSpec target;
  std::int64_t outputs = 0;  ///< elements of the network's output per sample
  LossFunction loss;
  /// Makes the loss of a training from the targets of its records, [records] of TargetSpec::bytes() bytes each. Until
  /// the records are open, the program uses `loss` instead; the ops of both losses must have the same sizes. Null: the
  /// loss does not depend on the targets of the records. Errors: data.
  std::function<LossFunction(std::span<const std::byte> targets)> loss_of_records = nullptr;
  /// Returns the group of a sample, a number from 0. --sampling balanced draws from each group equally often. Null: the
  /// task has no groups.
  std::function<std::int64_t(std::span<const std::byte> target)> group_of = nullptr;
  std::string loss_name;  ///< name of the loss without L2 in logs, e.g. "mean_squared_error"
  /// Returns the target of one sample as text, for messages.
  std::function<std::string(std::span<const std::byte> target)> describe_target;
  MakeMetric make_metric;
  /// Score::name of one of the metric's scores. This score selects the best checkpoint and is compared with
  /// --stop-at-accuracy.
  std::string score;
  bool higher_is_better = true;
};

}  // namespace carillon
