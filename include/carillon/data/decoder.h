// RecordDecoder: makes an image, of the size that a network takes, and a label of the bytes of a record.
//
// There is one for each form that records have; `make_*_decoder` below name them, and a file of src/data has each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "carillon/core/image_shape.h"
#include "carillon/data/example.h"
#include "carillon/images/view.h"

namespace carillon {

/// What is asked of the records of a set.
struct RecordSchema {
  ExampleKeys keys;        ///< the features that hold image and label
  ImageShape image_shape;  ///< of a decoded image of uint8
  std::int64_t class_count = 0;
  std::int64_t first_label = 0;  ///< in records: class 0 of class_count
};

class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  RecordDecoder(const RecordDecoder&) = delete;
  RecordDecoder& operator=(const RecordDecoder&) = delete;

  const ImageShape& image_shape() const { return schema_.image_shape; }
  std::int64_t class_count() const { return schema_.class_count; }

  /// Writes the image of `record`, whatever length that has, to `image` (image_shape().bytes() long, in the layout that
  /// the decoder names) and returns its label. What is random about it is a function of `position`, the sample's place
  /// in the stream. Safe from several threads.
  /// Errors: data, naming the feature and what is wrong, without file and record.
  virtual std::int32_t decode(std::span<const std::uint8_t> record, std::uint64_t position,
                              std::span<std::uint8_t> image) const = 0;

  /// Whether images depend on the stream position; a set of such images is not cached.
  virtual bool draws() const { return false; }

  /// Whether to decode a set once and keep it is more than who opens it wants to wait for.
  virtual bool is_slow() const { return false; }

  /// Decodes record i of a set into `image`.
  using ReadImage = std::function<void(std::size_t i, std::span<std::uint8_t> image)>;
  /// What is wrong with a set of `record_count` records that no single record tells; empty where nothing is.
  virtual std::string find_fault(std::size_t record_count, const ReadImage& read) const;

 protected:
  /// Requires a class and an image of at least one byte.
  explicit RecordDecoder(RecordSchema schema);

  const RecordSchema& schema() const { return schema_; }
  /// The class that a record's `label` says. Errors: data, where there is none.
  std::int32_t checked_label(std::int64_t label) const;
  /// For images stored as the bytes they are decoded to: copies them. Errors: as `decode`.
  std::int32_t copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image) const;

 private:
  RecordSchema schema_;
};

/// MNIST's form: grey pixels, row-major [height][width], as they are stored.
std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema);

/// What is made of a picture.
struct PictureDecoding {
  bool distorts = false;  ///< a part at random by `crop`, perhaps mirrored; else the middle (central_view)
  CropRule crop;
  bool mirrors = true;
  std::uint64_t seed = 0;    ///< of the draws
  std::int64_t shorter = 0;  ///< side of a resized picture, whose middle is the image
  Resampling resampling = Resampling::antialiased;
};

/// Pictures as JPEG or PNG files, as ImageNet's TFRecords hold them: resized to planes [3][height][width].
std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding);

/// CIFAR-10's form: colour planes [channels][height][width] (CHW), as they are stored. A set of images that seem to be
/// interleaved (HWC), which no length tells, is at fault.
std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema);

}  // namespace carillon
