// StepRing: a StepTable in host memory. Kernels that read a StepTable can be emulated with it.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "carillon/graph/step_inputs.h"

namespace carillon::testing {

class StepRing {
 public:
  /// `images`: rows of `image_bytes` bytes. `labels`: one label per row.
  StepRing(std::size_t batch_size, std::uint32_t capacity, std::uint32_t image_bytes, std::vector<std::uint8_t> images,
           std::vector<std::int32_t> labels)
      : entry_bytes_(StepTable::bytes_of_entry(batch_size)),
        records_at_(StepTable::records_offset(batch_size)),
        capacity_(capacity),
        image_bytes_(image_bytes),
        entries_(static_cast<std::size_t>(entry_bytes_) * capacity),
        images_(std::move(images)),
        labels_(std::move(labels)),
        outcomes_(capacity) {}
  StepRing(const StepRing&) = delete;
  StepRing& operator=(const StepRing&) = delete;

  /// Writes the entry of step `step`: sample i of the step has the image and label in row rows[i]. If `records` is not
  /// empty, sample i is record number records[i].
  void put(std::uint64_t step, const StepHeader& header, std::span<const std::uint32_t> rows,
           std::span<const std::uint32_t> records = {}) {
    std::byte* entry = entries_.data() + step % capacity_ * entry_bytes_;
    std::memcpy(entry, &header, sizeof(header));
    std::memcpy(entry + StepTable::rows_offset, rows.data(), rows.size_bytes());
    if (!records.empty()) std::memcpy(entry + records_at_, records.data(), records.size_bytes());
  }

  StepTable table() const {
    return {.entries = entries_.data(),
            .entry_bytes = entry_bytes_,
            .capacity = capacity_,
            .records_at = records_at_,
            .step_counter = &step_counter,
            .images = images_.data(),
            .image_bytes = image_bytes_,
            .target_bytes = sizeof(std::int32_t),
            .targets = std::as_bytes(std::span(labels_)).data()};
  }
  StepProgress progress() { return {&step_counter, &blocks_done, outcomes_.data(), capacity_}; }

  const std::uint8_t* image(std::uint32_t row) const {
    return images_.data() + static_cast<std::size_t>(row) * image_bytes_;
  }
  std::int32_t label(std::uint32_t row) const { return labels_[row]; }
  const StepOutcome& outcome(std::uint64_t step) const { return outcomes_[step % capacity_]; }

  std::uint64_t step_counter = 0;
  std::uint32_t blocks_done = 0;

 private:
  std::uint32_t entry_bytes_, records_at_, capacity_, image_bytes_;
  std::vector<std::byte> entries_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
  std::vector<StepOutcome> outcomes_;
};

/// Returns `count` pseudorandom bytes.
inline std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
  return bytes;
}

/// Returns `batch_size` row numbers below `row_count`, in scattered order.
inline std::vector<std::uint32_t> scattered_rows(std::size_t batch_size, std::uint32_t row_count) {
  std::vector<std::uint32_t> rows(batch_size);
  for (std::size_t i = 0; i < batch_size; ++i) rows[i] = static_cast<std::uint32_t>((i * 7919 + 5) % row_count);
  return rows;
}

}  // namespace carillon::testing
