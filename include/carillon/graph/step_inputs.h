// StepInputs: the inputs of ops and optimisers that change from step to step. The input stage owns them
// (src/step/input/input_stage.h).
//
// CPU ops read `batch`, `targets`, `scalars` and `request_sync` of the current step.
//
// GPU ops read a ring of entries in GPU memory, one entry per step. An entry has a header, the row of each sample in
// `images` and `targets`, and the samples' record numbers. The current entry is `*step_counter % capacity`. The last
// kernel of a step adds 1 to the counter (graph/step_end.h). So a captured step reads new inputs each time it is
// replayed, and the host fills entries ahead of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carillon/core/batch.h"
#include "carillon/core/host_device.h"

namespace carillon {

/// Numbers that change from step to step, for example the learning rate. The optimiser assigns the indices
/// (src/optim/optimizer.h).
struct StepScalars {
  static constexpr std::size_t count = 12;
  float at[count] = {};
  std::int64_t step = 0;  ///< number of the update, from 0
};

struct StepHeader {
  std::uint64_t first_position = 0;  ///< stream position of sample 0
  StepScalars scalars;
  float request_sync = 0.0f;     ///< 1: this rank requests a synchronisation (StepInputs::request_sync)
  std::uint32_t reports_l2 = 0;  ///< 1: the outcome includes the L2 loss
};

/// The ring of entries, as GPU ops read it. Rows and records are indexed by the sample's place in the batch.
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

  /// Offsets of the rows and of the record numbers in an entry.
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
  /// The first element of a sample's target. T: C++ type of TargetSpec::type.
  template <typename T>
  CARILLON_HOST_DEVICE const T* target(std::size_t sample) const {
    return reinterpret_cast<const T*>(targets + static_cast<std::size_t>(row(sample)) * target_bytes);
  }
};

/// The result of a step for the host: the means of the step sums, and the L2 loss. Equal on all ranks.
struct StepOutcome {
  float loss = 0.0f;           ///< loss of the task, without L2
  float sync_requests = 0.0f;  ///< part of the ranks that requested a synchronisation
  double l2_loss = 0.0;        ///< L2 loss before the update, in steps with reports_l2
};

/// The memory that the last kernel of a step updates: the step counter and the outcome.
struct StepProgress {
  std::uint64_t* step_counter = nullptr;  ///< as in StepTable
  std::uint32_t* blocks_done = nullptr;   ///< 0 between launches
  StepOutcome* outcomes = nullptr;        ///< [capacity] in host memory, by entry
  std::uint32_t capacity = 1;             ///< a power of two
};

struct StepInputs {
  // The current step, for ops on the host.
  Batch batch;  ///< this rank's samples, valid until the step is done
  /// [batch] Memory of the graph's target, at a fixed address. Null on a GPU: its ops read targets through `table`.
  std::byte* targets = nullptr;
  StepScalars scalars;
  bool request_sync = false;
  // For a GPU. Its ops copy these structs when they are created.
  StepTable table;
  StepProgress progress;
};

}  // namespace carillon
