// Labelled images: records with one image and one class label. The target is the class index: int32 [], from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "carillon/data/decoder.h"
#include "carillon/data/example.h"
#include "carillon/images/view.h"

namespace carillon {

/// Features, image shape and labels that the records of a dataset must have.
struct RecordSchema {
  ExampleKeys keys;        ///< names of the image and label features
  ImageShape image_shape;  ///< shape of a decoded image, uint8
  std::int64_t class_count = 0;
  std::int64_t first_label = 0;  ///< label in the records that means class 0
};

/// Base class of the decoders of labelled images. In synthetic datasets, sample i has class i modulo class_count.
class LabelledImageDecoder : public RecordDecoder {
 public:
  void write_synthetic_target(std::size_t i, std::span<std::byte> target) const override;

 protected:
  /// Errors: failed (class_count is 0, or the image has 0 bytes).
  explicit LabelledImageDecoder(RecordSchema schema);

  const RecordSchema& schema() const { return schema_; }
  /// Writes the class index of `label`. Errors: data (the label is out of range).
  void write_class(std::int64_t label, std::span<std::byte> target) const;
  /// Decodes a record that stores its image as the decoded bytes. Errors: as `decode`.
  void copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image,
                   std::span<std::byte> target) const;

 private:
  RecordSchema schema_;
};

/// MNIST format: grey pixels, row-major [height][width], copied without change.
std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema);

/// How an image file is cropped and resized to the network's input.
struct PictureDecoding {
  bool distorts = false;  ///< random crop by `crop`, with optional mirroring; false: centre crop (central_view)
  CropRule crop;
  bool mirrors = true;
  std::uint64_t seed = 0;    ///< seed of the random draws
  std::int64_t shorter = 0;  ///< shorter side in pixels after resizing, before the centre crop
  Resampling resampling = Resampling::antialiased;
  Colour background = {};  ///< behind transparent pixels
};

/// JPEG or PNG files, as in ImageNet's TFRecords, resized to planes [3][height][width].
std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding);

/// CIFAR-10 format: colour planes [channels][height][width] (CHW), copied without change. find_fault reports images
/// that look interleaved (HWC), because their length is the same.
std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema);

}  // namespace carillon
