// StepInputs: the inputs of ops and update that change from step to step. The input stage owns them
// (src/step/input/input_stage.h).
//
// The host's ops read `batch`, `scalars` and `request_sync` of the step in hand. A GPU's read a ring of entries in its
// memory, one a step: a header, the rows of the batch's samples in `images` and `targets`, and their record numbers.
// The step in hand is entry `*step_counter % capacity`; the last kernel of a step adds 1 to the counter
// (graph/step_end.h). So the same captured step, replayed, finds new inputs, and the host fills entries ahead of it.
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
  float pause = 0.0f;          ///< 1: this rank asks for a pause
  std::uint32_t tells_l2 = 0;  ///< 1: the outcome is to have the L2 loss
};

struct StepTable {
  const std::byte* entries = nullptr;  ///< [capacity] of entry_bytes each
  std::uint32_t entry_bytes = 0;
  std::uint32_t capacity = 1;    ///< a power of two
  std::uint32_t records_at = 0;  ///< records_offset of the batch
  const std::uint64_t* step_counter = nullptr;
  const std::uint8_t* images = nullptr;  ///< [row] of image_bytes each
  std::uint32_t image_bytes = 0;
  std::uint32_t target_bytes = 0;
  const std::byte* targets = nullptr;  ///< [row] of target_bytes each

  /// Where an entry's rows begin, and its record numbers, behind them, for a batch of `batch_size`.
  static constexpr std::uint32_t rows_offset = sizeof(StepHeader);
  static constexpr std::uint32_t records_offset(std::size_t batch_size) {
    return static_cast<std::uint32_t>(rows_offset + batch_size * sizeof(std::uint32_t));
  }
  /// Bytes of an entry for a batch of `batch_size`.
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
  /// In the data set; not known where the batch did not say it.
  CARILLON_HOST_DEVICE std::uint32_t record(std::size_t sample) const {
    return reinterpret_cast<const std::uint32_t*>(entry() + records_at)[sample];
  }
  CARILLON_HOST_DEVICE const std::uint8_t* image(std::size_t sample) const {
    return images + static_cast<std::size_t>(row(sample)) * image_bytes;
  }
  /// The first element of a sample's target, whose elements are of type T.
  template <typename T>
  CARILLON_HOST_DEVICE const T* target(std::size_t sample) const {
    return reinterpret_cast<const T*>(targets + static_cast<std::size_t>(row(sample)) * target_bytes);
  }
};

/// What the host learns of a step, equal on all towers: the step sums' means, and the L2 loss.
struct StepOutcome {
  float loss = 0.0f;     ///< the task's, without L2
  float pause = 0.0f;    ///< above 0: some rank asked for a pause
  double l2_loss = 0.0;  ///< of the variables before the update, where it was asked for
};

/// Where the last kernel of a step writes that the step is done, and its outcome.
struct StepProgress {
  std::uint64_t* step_counter = nullptr;  ///< as in StepTable
  std::uint32_t* blocks_done = nullptr;   ///< 0 between launches
  StepOutcome* outcomes = nullptr;        ///< [capacity] in host memory: the outcome of the step of entry i
  std::uint32_t capacity = 1;             ///< a power of two
};

struct StepInputs {
  // The current step, for ops on the host.
  Batch batch;  ///< this rank's samples, alive until the step is done
  /// [batch] The memory of the graph's target, at a fixed address. Null on a GPU, whose ops read targets through `table`.
  std::byte* targets = nullptr;
  StepScalars scalars;
  bool request_sync = false;
  // For a GPU. Its ops copy these structs when they are created.
  StepTable table;
  StepProgress progress;
};

}  // namespace carillon
