// ShardedUpdate: averaging and update in one pass, by towers with memory in common.
//
//   several towers   backward -> meet -> own shard: means, block by block, and the update from them -> meet -> gather
//   one tower        backward of an op -> update of its parameters
//
// A tower reads each gradient of its shard once from every tower and keeps no means: they go from the cache into its
// variables and the common slots. Variables it gathers from the others. Values are those of averaging and updating one
// after the other, bit for bit.
#pragma once

#include <vector>

#include "carillon/graph/parameters.h"
#include "src/comm/allreduce/shared_host_memory.h"
#include "src/graph/step_end.h"
#include "src/optim/optimizer.h"

namespace carillon {

class ShardedUpdate {
 public:
  /// Of `parameters`, gradients and values are own arrays of `memory`, which `towers` towers share, and the slots lie
  /// in it. All arguments outlive this. Errors: failed (the optimiser updates no ranges).
  ShardedUpdate(SharedHostMemory& memory, int towers, const ParameterStore& parameters, Optimizer& optimizer);

  /// Before backward, with the step sums written. `end` is made of those sums.
  void begin(const StepEnd& end);
  /// `parameter`'s gradient is complete, and its value no longer read by the pass. Every parameter once, in any order.
  void add(int parameter);
  /// After all are added: returns when this tower's variables and all slots are updated, where the mean loss allows it,
  /// and the step sums are averaged. The gradients mean nothing then.
  void finish();

  /// In place of the above, where gradients and step sums hold the means already: the same.
  void update_from_means(const StepEnd& end);

 private:
  SharedHostMemory& memory_;
  const ParameterStore& parameters_;
  Optimizer& optimizer_;
  bool alone_;
  std::vector<float> sums_;  ///< the step sums' means
  bool allowed_ = false;     ///< the loss of the one tower in the step in hand is finite
};

}  // namespace carillon
