// Labelled images: records with one image and one target.
//
//   TargetKind    feature of the record                       target
//   class_index   int64, one value: the label of the class    int32 [], the index of the class, from 0
//   labels        int64, any number of different labels       uint8 [class_count], 1 for each of these labels, else 0
//   numbers       float or int64, class_count values          float32 [class_count], standardised
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/data/decoder.h"
#include "carillon/data/example.h"
#include "carillon/images/augment.h"
#include "carillon/images/view.h"

namespace carillon {

/// Features, image shape and targets that the records of a dataset must have.
struct RecordSchema {
  ExampleKeys keys;              ///< names of the image and label features
  ImageShape image_shape;        ///< shape of a decoded image, uint8
  std::int64_t class_count = 0;  ///< classes, labels or numbers
  std::int64_t first_label = 0;  ///< label in the records that means class 0 (class_index, labels)
  TargetKind target = TargetKind::class_index;
  std::vector<NumberScale> scales = {};  ///< [class_count] (numbers); empty: the target is the stored number
};

/// The target of a sample with this schema.
TargetSpec target_spec_of(const RecordSchema& schema);

/// Base class of the decoders of labelled images. In synthetic datasets, sample i has the class i modulo class_count,
/// or only the label i modulo class_count, or numbers from -1 to 1.
class LabelledImageDecoder : public RecordDecoder {
 public:
  void decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const override;
  void write_synthetic_target(std::size_t i, std::span<std::byte> target) const override;

 protected:
  /// Errors: failed (class_count is 0, the number of scales is wrong, or the image has 0 bytes).
  explicit LabelledImageDecoder(RecordSchema schema);

  const RecordSchema& schema() const { return schema_; }
  /// Writes the class index of `label`. Errors: data (the label is out of range).
  void write_class(std::int64_t label, std::span<std::byte> target) const;
  /// Writes the target of `record` and returns its image as stored; the image points into `record` or `scratch`.
  /// Errors: as `decode`.
  std::span<const std::uint8_t> read(std::span<const std::uint8_t> record, std::span<std::byte> target,
                                     std::string& scratch) const;
  /// Decodes a record that stores its image as the decoded bytes. Errors: as `decode`.
  void copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image,
                   std::span<std::byte> target) const;

 private:
  void write_labels(std::span<const std::int64_t> labels, std::span<std::byte> target) const;
  void write_numbers(const ExampleValues& values, std::span<std::byte> target) const;

  RecordSchema schema_;
};

/// MNIST format: grey pixels, row-major [height][width], copied without change.
std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema);

/// How an image file is cropped and resized to the network's input.
struct PictureDecoding {
  bool distorts = false;  ///< random crop by `crop`, with optional mirroring; false: the whole picture (fitted_view)
  Fit fit = Fit::crop;
  CropRule crop;
  bool mirrors = true;
  bool flips = false, turns = false;  ///< as random_orientation
  double color_jitter = 0.0;          ///< strength; 0: disabled
  RandAugment augment;                ///< after cropping and mirroring
  double erasing = 0.0;               ///< probability of random erasing, as the last step; 0: disabled
  Colour erasing_fill = {};           ///< colour of erased pixels
  std::uint64_t seed = 0;             ///< seed of the random draws
  std::int64_t shorter = 0;           ///< Fit::crop: shorter side in pixels after resizing, before the centre crop
  Resampling resampling = Resampling::antialiased;
  Colour background = {};  ///< behind transparent pixels
  Colour padding = {};     ///< of the bars of Fit::pad
};

/// JPEG or PNG files, as in ImageNet's TFRecords, resized to planes [3][height][width].
std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding);

/// CIFAR-10 format: colour planes [channels][height][width] (CHW), copied without change. find_fault reports images
/// that look interleaved (HWC), because their length is the same.
std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema);

}  // namespace carillon
