// Batch: the samples of one rank's step, in host memory. A loader creates batches; an input stage reads them.
//
// Stream position: the number of a sample in the endless sequence of samples that a training reads, over all epochs and
// ranks. An evaluation reads each record once, and the stream position is the record number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace carillon {

/// A view of samples. Its creator states how long it stays valid. Sample i has the stream position first_position + i.
/// A batch from BatchLoader::next_by_records may have record numbers only, without images and targets.
struct Batch {
  std::span<const std::uint8_t* const> images;  ///< [batch] pointers, each to the bytes of one image
  std::span<const std::byte> targets;           ///< [batch] of TargetSpec::bytes() each; empty: unknown
  std::span<const std::uint32_t> records;       ///< [batch] record numbers in the dataset; empty: unknown
  std::uint64_t first_position = 0;             ///< stream position of sample 0
  std::size_t padding = 0;  ///< the last `padding` samples repeat the sample before them to fill the batch

  std::size_t size() const { return std::max(images.size(), records.size()); }
  std::size_t valid_count() const { return size() - padding; }
  /// The bytes of the targets of samples [first, first + count).
  std::span<const std::byte> targets_of(std::size_t first, std::size_t count) const {
    const std::size_t bytes = size() == 0 ? 0 : targets.size() / size();
    return targets.subspan(first * bytes, count * bytes);
  }
  /// Samples [first, first + count) of a batch without padding.
  Batch part(std::size_t first, std::size_t count) const {
    return {.images = images.subspan(first, count),
            .targets = targets_of(first, count),
            .records = records.empty() ? records : records.subspan(first, count),
            .first_position = first_position + first};
  }
};

}  // namespace carillon
