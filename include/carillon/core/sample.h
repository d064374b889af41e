// Samples: the shape of their images, the kind and shape of their targets, and batches of them.
//
// Stream position: the number of a sample in the endless sequence of samples that a training reads, over all epochs and
// ranks. In an evaluation, which reads each record once, the stream position is the record number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "carillon/core/tensor.h"

namespace carillon {

/// Height, width and channels of the images of a dataset.
struct ImageShape {
  std::int64_t height = 0, width = 0, channels = 0;

  /// Bytes of one uint8 image.
  std::size_t bytes() const { return static_cast<std::size_t>(height * width * channels); }
  bool operator==(const ImageShape&) const = default;
};

/// The kind of a sample's target: the class of the sample, the labels that apply to it, or some numbers.
enum class TargetKind { class_index, labels, numbers };

/// Element type and shape of the training target of one sample: int32 [] for a class, uint8 [n] for n labels (1: the
/// label applies, 0: it does not), float32 [k] for k numbers.
struct TargetSpec {
  DType type = DType::i32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.element_count()) * size_of(type); }
  bool operator==(const TargetSpec&) const = default;
};

/// The scale that standardises a number of the records, so that networks see values near 0: standardised = (number -
/// mean) / deviation.
struct NumberScale {
  double mean = 0.0;
  double deviation = 1.0;  ///< above 0

  double standardised(double number) const { return (number - mean) / deviation; }
  double number(double standardised) const { return standardised * deviation + mean; }
  bool operator==(const NumberScale&) const = default;
};

/// The samples of one rank's step, in host memory. A loader creates batches; an input stage reads batches. A batch is a
/// view: its creator states how long it stays valid. Sample i has the stream position first_position + i. A batch from
/// BatchLoader::next_by_records may have record numbers only, without images and targets.
struct Batch {
  std::span<const std::uint8_t* const> images;  ///< [batch] one pointer per sample, to the bytes of its image
  std::span<const std::byte> targets;           ///< [batch] one target per sample, each TargetSpec::bytes() long;
                                                ///< empty: unknown
  std::span<const std::uint32_t> records;       ///< [batch] the record number of each sample in the dataset; empty:
                                                ///< unknown
  std::uint64_t first_position = 0;             ///< stream position of sample 0
  std::size_t padding = 0;  ///< the last `padding` samples are copies of the last valid sample that fill the batch

  std::size_t size() const { return std::max(images.size(), records.size()); }
  std::size_t valid_count() const { return size() - padding; }
  /// Returns the bytes of the targets of samples [first, first + count).
  std::span<const std::byte> targets_of(std::size_t first, std::size_t count) const {
    const std::size_t bytes = size() == 0 ? 0 : targets.size() / size();
    return targets.subspan(first * bytes, count * bytes);
  }
  /// Samples [first, first + count) of this batch, as a batch without padding.
  Batch part(std::size_t first, std::size_t count) const {
    return {.images = images.subspan(first, count),
            .targets = targets_of(first, count),
            .records = records.empty() ? records : records.subspan(first, count),
            .first_position = first_position + first};
  }
};

}  // namespace carillon
