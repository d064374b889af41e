// Batches of noise. Each sample depends only on its number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carillon/core/sample.h"

namespace carillon::testing {

/// Makes the samples first, first + 1, ..., first + count - 1. An image has `image_bytes` random bytes. A target is an
/// int32 from 0 to 9.
class NoiseBatch {
 public:
  NoiseBatch(std::uint64_t first, std::size_t count, std::size_t image_bytes)
      : first_(first), pixels_(count * image_bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t state = (first + i + 1) * 0x9e3779b97f4a7c15u;
      std::uint8_t* image = pixels_.data() + i * image_bytes;
      for (std::size_t k = 0; k < image_bytes; ++k) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        image[k] = static_cast<std::uint8_t>(state >> 56);
      }
      images_.push_back(image);
      records_.push_back(static_cast<std::uint32_t>(first + i));
      labels_.push_back(static_cast<std::int32_t>((state >> 40) % 10));
    }
  }
  Batch batch() const { return {images_, std::as_bytes(std::span(labels_)), records_, first_}; }
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  std::uint64_t first_;
  std::vector<std::uint8_t> pixels_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> records_;
};

}  // namespace carillon::testing
