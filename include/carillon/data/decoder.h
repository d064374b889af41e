// RecordDecoder: makes an image, of the size that a network takes, and a target from the bytes of a record.
//
// There is one decoder for each form of records. The decoders of labelled images are in data/labelled_images.h.
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

  /// Of a decoded image: uint8, in the layout that the decoder names.
  const ImageShape& image_shape() const { return image_shape_; }
  const TargetSpec& target_spec() const { return target_spec_; }

  /// Writes the image of `record` to `image` (image_shape().bytes() long) and its target to `target`
  /// (target_spec().bytes() long). A random part of the result is a function of `position`, the sample's place in the
  /// stream. Safe from several threads.
  /// Errors: data, naming the feature and what is wrong, without file and record.
  virtual void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
                      std::span<std::byte> target) const = 0;

  /// Writes the target of sample i of a synthetic set (Dataset::synthetic). By default all its bytes are 0.
  virtual void write_synthetic_target(std::size_t i, std::span<std::byte> target) const;

  /// Whether images depend on the stream position; a set of such images is not cached.
  virtual bool draws() const { return false; }

  /// Whether decoding a whole set takes so long that it is not cached unless asked for.
  virtual bool is_slow() const { return false; }

  /// Decodes record i of a set into `image`.
  using ReadImage = std::function<void(std::size_t i, std::span<std::uint8_t> image)>;
  /// A fault of a set of `record_count` records that no single record shows; empty: none.
  virtual std::string find_fault(std::size_t record_count, const ReadImage& read) const;

 protected:
  /// Errors: failed (an image or a target without a byte).
  RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec);

 private:
  ImageShape image_shape_;
  TargetSpec target_spec_;
};

}  // namespace carillon
