// StepInputs: the inputs of ops and optimisers that change from step to step. StepEnd decides at the end of a step
// whether the update is applied. On a GPU, StepEnd also writes the results of the step to host memory (StepOutcome).
//
// CPU ops read `batch`, `targets`, `scalars` and `request_sync` of the current step.
//
// GPU ops read a ring of entries in GPU memory, one entry per step. An entry has:
// - a header;
// - for each sample, its row number in `images` and `targets`. If the GPU keeps all records of the dataset, the rows
//   are these records; otherwise the rows are the samples of the ring;
// - for each sample, its record number in the dataset.
//
// The current entry is `*step_counter % capacity`. The last kernel of a step adds 1 to the counter. A step captured in
// a CUDA graph therefore reads new inputs at each replay, while the host fills the entries of later steps.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "carillon/core/sample.h"
#include "carillon/graph/parameters.h"

namespace carillon {

/// The optimiser's numbers that change from step to step, for example the learning rate. A captured step cannot receive
/// arguments. Therefore it reads these numbers from its entry in the ring. The optimiser assigns the indices.
struct StepScalars {
  static constexpr std::size_t count = 12;
  float at[count] = {};
  std::int64_t step = 0;  ///< number of the update, from 0
};

struct StepHeader {
  std::uint64_t first_position = 0;  ///< stream position of sample 0 (core/sample.h)
  StepScalars scalars;
  /// 1 if this rank has a control request (save, stop), otherwise 0. If any rank sets 1, all ranks exchange their
  /// requests after this step.
  float request_sync = 0.0f;
  std::uint32_t reports_l2 = 0;  ///< 1: the step computes StepOutcome::l2_loss; else 0
};

/// The ring of entries, as GPU ops read it. Rows and records are indexed by the sample's number in the batch.
struct StepTable {
  const std::byte* entries = nullptr;  ///< [capacity] of entry_bytes each
  std::uint32_t entry_bytes = 0;
  std::uint32_t capacity = 1;    ///< a power of two
  std::uint32_t records_at = 0;  ///< records_offset(batch size)
  const std::uint64_t* step_counter = nullptr;
  const std::uint8_t* images = nullptr;  ///< [row] of image_bytes each
  std::uint32_t image_bytes = 0;
  std::uint32_t target_bytes = 0;
  const std::byte* targets = nullptr;  ///< [row] of target_bytes each

  /// Offsets, within an entry, of the row numbers and of the record numbers.
  static constexpr std::uint32_t rows_offset = sizeof(StepHeader);
  static constexpr std::uint32_t records_offset(std::size_t batch_size) {
    return static_cast<std::uint32_t>(rows_offset + batch_size * sizeof(std::uint32_t));
  }
  /// Bytes of an entry, a multiple of 16.
  static constexpr std::uint32_t bytes_of_entry(std::size_t batch_size) {
    return static_cast<std::uint32_t>((records_offset(batch_size) + batch_size * sizeof(std::uint32_t) + 15) / 16 * 16);
  }

  CARILLON_HOST_DEVICE const std::byte* entry() const {
    const std::uint32_t place = static_cast<std::uint32_t>(*step_counter) & (capacity - 1);
    return entries + static_cast<std::size_t>(place) * entry_bytes;
  }
  CARILLON_HOST_DEVICE const StepHeader& header() const { return *reinterpret_cast<const StepHeader*>(entry()); }
  CARILLON_HOST_DEVICE std::uint32_t row(std::size_t sample) const {
    return reinterpret_cast<const std::uint32_t*>(entry() + rows_offset)[sample];
  }
  /// Record number of the sample in the dataset. Undefined if the batch does not state its records.
  CARILLON_HOST_DEVICE std::uint32_t record(std::size_t sample) const {
    return reinterpret_cast<const std::uint32_t*>(entry() + records_at)[sample];
  }
  CARILLON_HOST_DEVICE const std::uint8_t* image(std::size_t sample) const {
    return images + static_cast<std::size_t>(row(sample)) * image_bytes;
  }
  /// Returns the first element of a sample's target. T: the C++ type for TargetSpec::type.
  template <typename T>
  CARILLON_HOST_DEVICE const T* target(std::size_t sample) const {
    return reinterpret_cast<const T*>(targets + static_cast<std::size_t>(row(sample)) * target_bytes);
  }
};

/// The result of a step for the host: the means of the step sums, the L2 loss and the norm of the gradient. All ranks
/// get equal results.
struct StepOutcome {
  float loss = 0.0f;            ///< loss of the task, without L2
  float sync_requests = 0.0f;   ///< fraction of the ranks, 0 to 1, that set StepHeader::request_sync to 1
  double l2_loss = 0.0;         ///< L2 loss before the update, if StepHeader::reports_l2 is 1; otherwise 0
  double gradient_norm = -1.0;  ///< norm of the mean gradient before clipping; negative: not computed
};

/// The memory that the last kernel of a step writes: the step counter and the outcome.
struct StepProgress {
  std::uint64_t* step_counter = nullptr;  ///< see StepTable
  std::uint32_t* blocks_done = nullptr;   ///< finished blocks of the step's last kernel; 0 between launches
  StepOutcome* outcomes = nullptr;        ///< [capacity] in host memory, by entry
  std::uint32_t capacity = 1;             ///< a power of two
};

struct StepInputs {
  // The current step, for ops on the host.
  Batch batch;  ///< this rank's samples, valid until the step is done
  /// [batch] The targets of the samples, in the memory of the graph's target value. The address never changes. Null on
  /// a GPU: GPU ops read targets through `table`.
  std::byte* targets = nullptr;
  StepScalars scalars;
  bool request_sync = false;  ///< see StepHeader::request_sync
  // Only for a GPU. GPU ops copy these structs when they are created.
  StepTable table;
  StepProgress progress;
};

/// The end of a step. Update kernels receive it by value.
struct StepEnd {
  const float* sums = nullptr;  ///< [step_sum_count] the sums after the all-reduce. Their products with result_scale
                                ///< are the means
  StepProgress progress;        ///< GPU only
  float result_scale = 1.0f;    ///< factor that turns the sums of gradients and step sums into means
                                ///< (Communicator::result_scale)

  CARILLON_HOST_DEVICE float mean(float averaged) const { return rounded_product(averaged, result_scale); }

  /// The update is skipped if the averaged loss is not finite.
  CARILLON_HOST_DEVICE bool allows_update() const { return std::isfinite(mean(sums[loss_sum])); }

  /// One thread of each block of the step's last kernel calls this, after the block has read the step's header for the
  /// last time. `blocks`: number of blocks. Returns true in the block that finishes last. This block may read the
  /// results of all other blocks.
  CARILLON_HOST_DEVICE bool finish_block(int blocks) const {
    return fetch_increment(progress.blocks_done) + 1 == static_cast<std::uint32_t>(blocks);
  }
  /// One thread of the last block calls this as its last action. Writes the outcome and adds 1 to the step counter. The
  /// norm is reported only if the update is applied.
  CARILLON_HOST_DEVICE void finish_step(double l2_loss, double gradient_norm = -1.0) const {
    progress.outcomes[*progress.step_counter & (progress.capacity - 1)] = {
        mean(sums[loss_sum]), mean(sums[sync_sum]), l2_loss, allows_update() ? gradient_norm : -1.0};
    *progress.blocks_done = 0;
    *progress.step_counter += 1;
  }
};

}  // namespace carillon
