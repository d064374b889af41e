// CudaMicroBatches: the GradientSource that divides a rank's batch into micro-batches on a GPU. CUDA builds only.
//
// One executable computes the micro-batches one after the other. Therefore only the activations of one micro-batch are
// in memory at a time. As on CPUs (micro_batches.h), each micro-batch is computed as if it were a batch. One binary
// tree sums gradients and step sums over all micro-batches of all ranks.
//
//   for each micro-batch   select its inputs; old buffers -> own buffers; forward; own buffers -> step sums; backward;
//                          add gradients and step sums to the tree
//   (the update strategy averages over the ranks)
//   finish                 averaged step sums -> buffers
//
// The calls only enqueue, and enqueue the same work in each step. So a step can be captured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/graph/step_inputs.h"
#include "src/graph/executable.h"
#include "src/step/gradients/gradient_source.h"
#include "src/step/gradients/micro_batches.h"

namespace carillon {

/// Copies the header and the samples from number `first` on of the current entry. `i`: number of a sample in the
/// micro-batch.
struct SelectMicroBatch {
  StepTable from;
  std::byte* to = nullptr;       ///< an entry for the micro-batch
  std::uint32_t records_at = 0;  ///< StepTable::records_at of that entry
  std::uint32_t first = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto sample = static_cast<std::uint32_t>(i);
    if (sample == 0) {
      StepHeader& header = *reinterpret_cast<StepHeader*>(to);
      header = from.header();
      header.first_position += first;
    }
    reinterpret_cast<std::uint32_t*>(to + StepTable::rows_offset)[sample] = from.row(first + sample);
    reinterpret_cast<std::uint32_t*>(to + records_at)[sample] = from.record(first + sample);
  }
};

/// The StepInputs of one micro-batch of the current step on a GPU.
///
/// Ops read a table with a single entry. `select` copies to it the header and the samples of a micro-batch from the
/// current entry of the step's ring. So one executable serves all micro-batches, and a captured step selects them again
/// at each replay.
class MicroBatchInputs {
 public:
  /// `of_step`: inputs of the rank's whole batch, on a GPU. `samples`: samples per micro-batch.
  MicroBatchInputs(const StepInputs& of_step, std::uint32_t samples, Device& device);

  /// The inputs that an executable reads. The address is constant during the lifetime of this.
  const StepInputs& inputs() const { return inputs_; }
  /// Enqueues the selection of micro-batch number `micro_batch` of the current step.
  void select(std::uint32_t micro_batch, Stream& stream) const;

 private:
  StepTable of_step_;
  std::uint32_t samples_;
  Buffer entry_;
  StepInputs inputs_;
};

class CudaMicroBatches final : public GradientSource {
 public:
  /// The arguments are those of MicroBatches. Errors: failed (a buffer has AcrossRanks::first).
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
  BufferStore buffers_;  ///< buffers of the current micro-batch
  Executable executable_;
  Buffer waiting_;  ///< [levels][gradients and step sums] sums of the tree
};

}  // namespace carillon
