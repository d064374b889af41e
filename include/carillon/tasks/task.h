// Task: what a network is trained for: the target of each sample, the loss, and the metric of an evaluation.
//
// A task knows nothing of networks, and a network knows nothing of tasks. The engine handles targets as bytes of the
// type and shape that the task states, and compares runs by the task's score.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/graph/graph.h"

namespace carillon {

/// Element type and shape of one sample's target: int32 [] for a class, uint8 [labels], float32 [k].
struct TargetSpec {
  DType type = DType::i32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.element_count()) * size_of(type); }
};

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

/// Adds the loss, a scalar that is a mean over the batch. `output`: of the network. `target`: [batch,
/// TargetSpec::shape].
using LossFunction = std::function<Value(Graph& graph, Value output, Value target)>;

struct Task {
  TargetSpec target;
  LossFunction loss;
  std::function<std::unique_ptr<Metric>()> make_metric;
  std::string score;  ///< the name of the Score that keep-best and stop-at compare
  bool higher_is_better = true;
};

}  // namespace carillon
