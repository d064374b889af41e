// RecordDecoder: converts the bytes of a record into an image of the network's input size and a target.
//
// Each record format has its own decoder. The decoders of labelled images are in data/labelled_images.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "carillon/core/image_shape.h"
#include "carillon/core/target_spec.h"

namespace carillon {

class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  RecordDecoder(const RecordDecoder&) = delete;
  RecordDecoder& operator=(const RecordDecoder&) = delete;

  /// Shape of a decoded image: uint8, in the layout that the decoder documents.
  const ImageShape& image_shape() const { return image_shape_; }
  const TargetSpec& target_spec() const { return target_spec_; }

  /// Writes the image of `record` to `image` (image_shape().bytes() long) and its target to `target`
  /// (target_spec().bytes() long). Random draws depend only on `position`, the sample's position in the stream.
  /// Thread-safe.
  /// Errors: data; the text names the feature and the problem. The dataset adds file and record.
  virtual void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
                      std::span<std::byte> target) const = 0;

  /// Writes the target of sample i of a synthetic dataset (Dataset::synthetic). The default writes zero bytes.
  virtual void write_synthetic_target(std::size_t i, std::span<std::byte> target) const;

  /// Whether images depend on the stream position. A dataset with such a decoder is not cached.
  virtual bool draws() const { return false; }

  /// Whether decoding is slow. A dataset with such a decoder is cached only on request.
  virtual bool is_slow() const { return false; }

  /// Decodes record i of a dataset into `image`.
  using ReadImage = std::function<void(std::size_t i, std::span<std::uint8_t> image)>;
  /// Checks a dataset of `record_count` records for faults that no single record shows. Returns a description of the
  /// fault; empty: no fault.
  virtual std::string find_fault(std::size_t record_count, const ReadImage& read) const;

 protected:
  /// Errors: failed (an image or a target of 0 bytes).
  RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec);

 private:
  ImageShape image_shape_;
  TargetSpec target_spec_;
};

}  // namespace carillon
