// MicroBatches: the gradients of a tower's batch on a CPU from parts of it, the micro-batches, each taken by one
// thread.
//
// A micro-batch goes through the network by itself, as if it were a batch, so that what it gives (gradients, loss, the
// buffers that batch norms make of the old ones) depends neither on the tower nor on how many threads that has. All of
// it is summed over the step's micro-batches as a binary tree (core/sum_in_order.h), by a tower over its own and by the
// communicator over the towers, and divided by their number once. So the same global batch gives the same bits at any
// number of towers that have 2^k micro-batches each.
//
//   compute: thread t: micro-batch 0, 2, ...   thread u: micro-batch 1, 3, ...    each: forward, backward, sum
//   finish:  sum -> gradients and step sums, the buffers being among these
//   (the communicator's means)
//   take_buffers: the means of the buffers
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "carillon/models/network.h"
#include "src/graph/executable.h"
#include "src/step/input/input_stage.h"

namespace carillon {

class SumTree;

/// How a global batch is cut.
struct MicroBatchForm {
  std::int64_t samples = 1;      ///< of a micro-batch
  std::int64_t own_count = 1;    ///< of a tower
  std::int64_t total_count = 1;  ///< of all towers
};

/// Step sums that a store of parameters is to have room for, so that these buffers can be among them.
std::size_t step_sums_with(const std::vector<BufferSpec>& buffers);

class MicroBatches {
 public:
  /// Of `network`, built for a micro-batch. `parameters`, whose step sums have room for the buffers, `buffers` and
  /// `device`, a CPU, outlive this.
  MicroBatches(const BuiltNetwork& network, const MicroBatchForm& form, std::size_t image_bytes,
               const ParameterStore& parameters, const BufferStore& buffers, Device& device);
  ~MicroBatches();

  /// Goes on with another form of the same network.
  void run_in(const BuiltNetwork& network);

  /// All of this tower's micro-batches. `inputs`: of its whole batch.
  void compute(const StepInputs& inputs);
  /// After that: gradients and step sums. Where there are several towers, sums, to be averaged by 1 / total_count; else
  /// means.
  void finish();
  /// With the step sums averaged: the buffers after the step.
  void take_buffers();

  /// Of a thread's activations and their gradients.
  std::size_t memory_bytes() const;

 private:
  struct Lane;

  MicroBatchForm form_;
  std::size_t image_bytes_;
  const ParameterStore& parameters_;
  const BufferStore& buffers_;
  Device& device_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // one a thread
  std::unique_ptr<SumTree> sum_;
};

}  // namespace carillon
