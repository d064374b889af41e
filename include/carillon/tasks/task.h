// Task: what a network is trained for: the target of each sample, the loss, and the metric of an evaluation.
//
// A task knows nothing of networks, and a network knows nothing of tasks. The engine handles targets as bytes of the
// type and shape that the task states, and compares runs by the task's score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/target_spec.h"
#include "carillon/graph/graph.h"

namespace carillon {

struct MixingParams;  // kernels/shared/mixing.h

/// One result of an evaluation.
struct Score {
  std::string name;  ///< "accuracy"
  double value = 0.0;
};

/// Accumulates the samples of an evaluation. Each rank has one; their contents are merged in rank order.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Adds samples. `outputs`: float32 [samples, output elements], row-major. `targets`: [samples] of TargetSpec.
  virtual void add(std::span<const float> outputs, std::span<const std::byte> targets) = 0;
  /// What has been accumulated, for `merge` on another rank.
  virtual std::string contents() const = 0;
  /// Adds the contents of another rank's metric. Errors: failed (not the contents of such a metric).
  virtual void merge(std::string_view contents) = 0;
  /// Named results; the task's score is among them.
  virtual std::vector<Score> scores() const = 0;
  /// One line for people: "precision @ 1 = 0.984 (9840/10000)".
  virtual std::string text() const = 0;
};

/// What a loss is computed from.
struct LossInputs {
  Value output;                ///< of the network: [batch, outputs]
  Value target;                ///< [batch, TargetSpec::shape] of TargetSpec::type
  const MixingParams& mixing;  ///< how the batch's images are mixed; a loss mixes the targets alike, or refuses
};

/// Adds the loss to the graph: a float32 scalar that is a mean over the batch. Errors: usage (mixed samples, if the
/// loss cannot mix targets).
using LossFunction = std::function<Value(Graph& graph, const LossInputs& inputs)>;

struct Task {
  TargetSpec target;
  std::int64_t outputs = 0;  ///< elements of the network's output for one sample
  LossFunction loss;
  std::string loss_name;  ///< of the loss without L2, in logs: "mean_squared_error"
  /// One sample's target as text, for messages.
  std::function<std::string(std::span<const std::byte> target)> describe_target;
  std::function<std::unique_ptr<Metric>()> make_metric;
  std::string score;  ///< the name of the Score that keep-best and stop-at compare
  bool higher_is_better = true;
};

}  // namespace carillon
