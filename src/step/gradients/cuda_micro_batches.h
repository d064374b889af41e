// CudaMicroBatches: the GradientSource that divides a rank's batch into micro-batches on a GPU. CUDA builds only.
//
// One executable computes the micro-batches one after the other. So the activations of one micro-batch are in memory at
// a time. As on CPUs (micro_batches.h), each micro-batch is computed as if it were a batch, and one binary tree sums
// gradients and step sums over all micro-batches of all ranks.
//
//   for each micro-batch   select its inputs; old buffers -> own buffers; forward; own buffers -> step sums; backward;
//                          add gradients and step sums to the tree
//   (the update strategy averages over the ranks)
//   finish                 averaged step sums -> buffers
//
// The calls only enqueue, and enqueue the same work in each step. So a step can be captured.
#pragma once

#include <span>
#include <vector>

#include "src/graph/executable.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/gradients/micro_batches.h"
#include "src/step/input/micro_batch_inputs.h"

namespace carillon {

class CudaMicroBatches final : public GradientSource {
 public:
  /// As MicroBatches. Errors: failed (a buffer with AcrossRanks::first).
  CudaMicroBatches(const GradientSourceContext& context, const MicroBatchForm& form);

  void enqueue(GradientSink& sink) override;
  void finish() override;
  void rebuild() override;
  bool averages_buffers() const override { return true; }
  std::size_t activation_bytes() const override { return executable_.memory_bytes(); }

 private:
  void add_to_sum(std::uint32_t micro_batch, Stream& stream) const;

  GradientSourceContext context_;
  MicroBatchForm form_;
  MicroBatchInputs inputs_;
  BufferStore buffers_;  ///< of the current micro-batch
  Executable executable_;
  Buffer waiting_;  ///< [levels][gradients and step sums] sums of the tree
};

}  // namespace carillon
