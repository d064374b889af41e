// RecordDecoder: converts the bytes of a record into an image of the network's input size and a target.
//
// Each record format has its own decoder. The decoders of labelled images are in data/labelled_images.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "carillon/core/sample.h"

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
  /// (target_spec().bytes() long). Random draws depend only on the decoder's settings and `position`, the stream
  /// position (core/sample.h). Thread-safe.
  /// Errors: data; the text names the feature and the problem, and the dataset adds file and record. After
  /// Dataset::skip_damaged, `read` skips only records with this error, and rethrows every other error.
  virtual void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
                      std::span<std::byte> target) const = 0;

  /// Writes only the target of `record`, as `decode` does. The default implementation also decodes the image.
  /// Thread-safe. Errors: as `decode`, but it may miss faults of the image.
  virtual void decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const;

  /// Writes the target of sample i of a synthetic dataset (Dataset::synthetic). The default writes zero bytes.
  virtual void write_synthetic_target(std::size_t i, std::span<std::byte> target) const;

  /// Whether `decode` draws random numbers. Such a dataset is never cached.
  virtual bool draws() const { return false; }

  /// Whether decoding is slow. Such a dataset is cached only with CacheMode::memory.
  virtual bool is_slow() const { return false; }

  /// Decodes record i of a dataset into `image`.
  using ReadImage = std::function<void(std::size_t i, std::span<std::uint8_t> image)>;
  /// Called once by Dataset::open. Looks for faults that are visible only in several of the `record_count` records
  /// together. Returns a description of the fault; empty: no fault, which is the default.
  virtual std::string find_fault(std::size_t record_count, const ReadImage& read) const;

 protected:
  /// Errors: failed (an image or a target of 0 bytes).
  RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec);

 private:
  ImageShape image_shape_;
  TargetSpec target_spec_;
};

}  // namespace carillon
