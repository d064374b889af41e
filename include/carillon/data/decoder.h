// RecordDecoder: converts the bytes of a record into an image of the network's input size and a target.
//
// Each record format has its own decoder. The decoders of labelled images, with one image and one target per record,
// are grey_records, planar_records and make_picture_decoder. A program states its decoder in a RecordForm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/data/record.h"
#include "carillon/images/view.h"

namespace carillon {

class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  RecordDecoder(const RecordDecoder&) = delete;
  RecordDecoder& operator=(const RecordDecoder&) = delete;

  /// Shape of a decoded image: uint8, [height][width][channels].
  const ImageShape& image_shape() const { return image_shape_; }
  const TargetSpec& target_spec() const { return target_spec_; }

  /// Writes the image of `record` to `image` (image_shape().bytes() long) and its target to `target`
  /// (target_spec().bytes() long). Random draws depend only on the decoder's settings and `position`, the stream
  /// position (core/sample.h). Thread-safe.
  /// Errors: data. The text names the feature and the problem; the dataset adds file and record. After
  /// Dataset::skip_damaged, `read` skips only records with this error, and rethrows every other error.
  virtual void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
                      std::span<std::byte> target) const = 0;

  /// Writes only the target of `record`, as `decode` does. The default implementation also decodes the image.
  /// Thread-safe. Errors: as `decode`, but faults of the image may stay undetected.
  virtual void decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const;

  /// Writes the target of sample i of a synthetic dataset (Dataset::synthetic). The default implementation writes
  /// zeros.
  virtual void write_synthetic_target(std::size_t i, std::span<std::byte> target) const;

  /// True if `decode` draws random numbers. A dataset with such a decoder is never cached.
  virtual bool draws() const { return false; }

  /// True if decoding is slow. A dataset with such a decoder is cached only with CacheMode::memory.
  virtual bool is_slow() const { return false; }

  /// Decodes record i of a dataset into `image`.
  using ReadImage = std::function<void(std::size_t i, std::span<std::uint8_t> image)>;
  /// Looks for faults that a single record does not show. Dataset::open calls this once; `record_count`: number of
  /// records. Returns a description of the fault, or an empty text if there is none. The default implementation finds
  /// no fault.
  virtual std::string find_fault(std::size_t record_count, const ReadImage& read) const;

 protected:
  /// Errors: failed (an image or a target would have 0 bytes).
  RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec);

 private:
  ImageShape image_shape_;
  TargetSpec target_spec_;
};

// Labelled images: records with one image and one target.
//
//   TargetKind    feature of the record                       target
//   class_index   int64, one value: the label of the class    int32 [], the index of the class, from 0
//   labels        int64, any number of different labels       uint8 [class_count], 1 for each of these labels, else 0
//   numbers       float or int64, class_count values          float32 [class_count], standardised

/// Features, image shape and targets that the records of a dataset must have.
struct RecordSchema {
  ExampleKeys keys;              ///< names of the image and label features
  ImageShape image_shape;        ///< shape of a decoded image, uint8
  std::int64_t class_count = 0;  ///< number of classes, labels or numbers that a target can have (TargetKind)
  std::int64_t first_label = 0;  ///< the number that stands for class 0 or label 0 in a record; only for
                                 ///< TargetKind::class_index and TargetKind::labels
  TargetKind target = TargetKind::class_index;
  /// [class_count], only for TargetKind::numbers. If it is empty, the target is the stored number, which is not
  /// standardised.
  std::vector<NumberScale> scales = {};
};

/// Returns the target of a sample with this schema.
TargetSpec target_spec_of(const RecordSchema& schema);

/// Base class of the decoders of labelled images. In synthetic datasets, the target of sample i depends on the
/// TargetKind: class i modulo class_count, only the label i modulo class_count, or numbers from -1 to 1.
class LabelledImageDecoder : public RecordDecoder {
 public:
  void decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const override;
  void write_synthetic_target(std::size_t i, std::span<std::byte> target) const override;

 protected:
  /// Errors: failed (class_count is 0, the number of scales is wrong, or an image would have 0 bytes).
  explicit LabelledImageDecoder(RecordSchema schema);

  const RecordSchema& schema() const { return schema_; }
  /// Writes the class index of `label`. Errors: data (the label is out of range).
  void write_class(std::int64_t label, std::span<std::byte> target) const;
  /// Writes the target of `record`, and returns the image as the record stores it. The image points into `record` or
  /// `scratch`. Errors: as `decode`.
  std::span<const std::uint8_t> read(std::span<const std::uint8_t> record, std::span<std::byte> target,
                                     std::string& scratch) const;
  /// Like `read`, but requires that the record stores the uint8 values of the image, not an image file. Errors: as
  /// `decode`.
  std::span<const std::uint8_t> read_values(std::span<const std::uint8_t> record, std::span<std::byte> target,
                                            std::string& scratch) const;

 private:
  void write_labels(std::span<const std::int64_t> labels, std::span<std::byte> target) const;
  void write_numbers(const ExampleValues& values, std::span<std::byte> target) const;

  RecordSchema schema_;
};

enum class RecordUse { training, evaluation };

/// Decodes the MNIST format: grey pixels, row-major [height][width], which are copied without change. Errors: failed
/// (the images do not have exactly one channel).
std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse use = RecordUse::training);

/// Decodes the CIFAR-10 format: colour planes [channels][height][width] (CHW). find_fault reports images that look
/// interleaved (HWC): `decode` cannot detect them, because their length is the same. Errors: failed (the images have
/// one channel).
std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse use = RecordUse::training);

/// How an image file is cropped and resized to the network's input.
struct PictureDecoding {
  bool distorts = false;  ///< true: a random crop (`crop`), which may be mirrored; false: fitted_view
  Fit fit = Fit::crop;
  CropRule crop;
  bool mirrors = true;
  bool flips = false, turns = false;  ///< arguments of random_orientation
  double color_jitter = 0.0;          ///< strength of the random colour changes (color_jitter); 0: disabled
  RandAugment augment;                ///< applied after color_jitter
  double erasing = 0.0;               ///< probability of random erasing, as the last step; 0: disabled
  Colour erasing_fill = {};           ///< colour of erased pixels
  std::uint64_t seed = 0;             ///< seed of the random draws
  /// Only for Fit::crop: the shorter side of the picture in pixels, after resizing and before the centre crop.
  std::int64_t shorter = 0;
  Resampling resampling = Resampling::antialiased;
  Colour background = {};  ///< colour behind transparent pixels
  Colour padding = {};     ///< colour of the bars of Fit::pad
};

/// Decodes and resizes JPEG or PNG files, as ImageNet's TFRecords contain them. Errors: failed (the images do not have
/// three channels).
std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding);

/// Feature names that replace the default names of the format; an empty name keeps the default.
struct RecordKeys {
  std::string image, target;
};

/// Creates the decoder of the records. The images of evaluations and trainings may have different shapes if the network
/// has the same variables for both shapes.
using MakeDecoder = std::function<std::unique_ptr<RecordDecoder>(RecordSchema schema, RecordUse use)>;

/// Record format of a program: the schema of the records and the decoder that reads them.
struct RecordForm {
  MakeDecoder make_decoder;
  RecordSchema schema;            ///< `schema.image_shape` is the shape of the training images
  bool decoder_distorts = false;  ///< the decoder distorts training images, so the network must not

  /// Creates the decoder of records with the features `keys`.
  std::unique_ptr<RecordDecoder> decoder(const RecordKeys& keys, RecordUse use) const;
};

/// Reorders an image from planes, [channels][height][width], to pixels, [height][width][channels]. `planes` and
/// `pixels` have shape.bytes() bytes each and do not overlap.
void planes_to_pixels(const ImageShape& shape, std::span<const std::uint8_t> planes, std::span<std::uint8_t> pixels);
/// The inverse of planes_to_pixels.
void pixels_to_planes(const ImageShape& shape, std::span<const std::uint8_t> pixels, std::span<std::uint8_t> planes);

}  // namespace carillon
