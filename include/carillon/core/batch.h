// Batch: the samples of one tower's step, as they lie in the host's memory. What a loader gives and a input stage
// takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace carillon {

/// Sample i is at stream position first_position + i. A view: who made it says how long it stays valid, and may leave
/// out what the records tell (BatchLoader::next_by_records).
struct Batch {
  std::span<const std::uint8_t* const> images;  ///< [batch] pointers to the bytes of one image each
  std::span<const std::int32_t> labels;         ///< [batch]
  std::span<const std::uint32_t> records;       ///< [batch] their record numbers in the set; empty: not known
  std::uint64_t first_position = 0;
  std::size_t padding = 0;  ///< the last samples, so many, only fill the batch: they repeat the one before them

  std::size_t valid_count() const { return std::max(labels.size(), records.size()) - padding; }
  /// Samples [first, first + count) of a batch without padding.
  Batch part(std::size_t first, std::size_t count) const {
    return {.images = images.subspan(first, count),
            .labels = labels.subspan(first, count),
            .records = records.empty() ? records : records.subspan(first, count),
            .first_position = first_position + first};
  }
};

}  // namespace carillon
