// Labelled images: records of an image and the number of its class. The target is the class: int32 [], from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "carillon/data/decoder.h"
#include "carillon/data/example.h"
#include "carillon/images/view.h"

namespace carillon {

/// What the records of a set must contain.
struct RecordSchema {
  ExampleKeys keys;        ///< the features that hold image and label
  ImageShape image_shape;  ///< of a decoded image of uint8
  std::int64_t class_count = 0;
  std::int64_t first_label = 0;  ///< label of class 0 in records
};

/// Base of the decoders of labelled images. In synthetic sets, sample i is of class i modulo the number of classes.
class LabelledImageDecoder : public RecordDecoder {
 public:
  void write_synthetic_target(std::size_t i, std::span<std::byte> target) const override;

 protected:
  /// Errors: failed (no class, or an image without a byte).
  explicit LabelledImageDecoder(RecordSchema schema);

  const RecordSchema& schema() const { return schema_; }
  /// Writes the class of a record's `label`. Errors: data (a label of no class).
  void write_class(std::int64_t label, std::span<std::byte> target) const;
  /// Decodes a record of an image that is stored as the bytes it is decoded to. Errors: as `decode`.
  void copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image,
                   std::span<std::byte> target) const;

 private:
  RecordSchema schema_;
};

/// MNIST's form: grey pixels, row-major [height][width], as they are stored.
std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema);

/// How a picture becomes an image.
struct PictureDecoding {
  bool distorts = false;  ///< a random part by `crop`, perhaps mirrored; else the middle (central_view)
  CropRule crop;
  bool mirrors = true;
  std::uint64_t seed = 0;    ///< of the draws
  std::int64_t shorter = 0;  ///< shorter side of the resized picture, whose middle is the image, in pixels
  Resampling resampling = Resampling::antialiased;
};

/// Pictures as JPEG or PNG files, as in ImageNet's TFRecords: resized to planes [3][height][width].
std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding);

/// CIFAR-10's form: colour planes [channels][height][width] (CHW), as they are stored. find_fault reports images that
/// seem to be interleaved (HWC), which no length shows.
std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema);

}  // namespace carillon
