// Task: what a network is trained for: the target of each sample, the loss, and the metric of an evaluation.
//
// A task knows nothing of networks, and a network knows nothing of tasks. The engine handles targets as bytes of the
// type and shape that the task states, and compares runs by the task's score.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "carillon/core/tensor.h"
#include "carillon/graph/graph.h"
#include "carillon/tasks/metric.h"

namespace carillon {

/// Element type and shape of one sample's target: int32 [] for a class, uint8 [labels], float32 [k].
struct TargetSpec {
  DType type = DType::i32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.element_count()) * size_of(type); }
};

/// Adds the loss, a scalar that is a mean over the batch. `output`: of the network. `target`: [batch,
/// TargetSpec::shape].
using LossFunction = std::function<Value(Graph& graph, Value output, Value target)>;

struct Task {
  TargetSpec target;
  LossFunction loss;
  std::string loss_name;  ///< of the loss without L2, in logs: "cross_entropy"
  MakeMetric make_metric;
  std::string score;  ///< the name of the Score that keep-best and stop-at compare
  bool higher_is_better = true;
};

}  // namespace carillon
