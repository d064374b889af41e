// PictureOptions: how image_train and image_eval turn pictures of any size into images for a network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "src/cli/options/option_set.h"
#include "src/cli/options/run_description.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

/// How pictures become images. Each value is the preprocessing with which some published weights were trained. All
/// values except `tensorflow` crop and resize as torchvision does, and differ only in the normalisation of the pixels.
enum class Preprocessing {
  torchvision,  ///< RandomResizedCrop, antialiased; pixels normalised by ImageNet's means and deviations
  inception,    ///< pixels from -1 to 1, as in timm's vision transformers
  clip,         ///< pixels normalised by the means and deviations of OpenAI's CLIP
  unit,         ///< pixels from 0 to 1
  bytes,        ///< pixels from 0 to 255, for networks that normalise them
  tensorflow,   ///< distorted bounding boxes, resize_bilinear; ImageNet's means subtracted from pixels 0..255
};

inline constexpr std::array preprocessing_choices{Choice{Preprocessing::torchvision, "torchvision"},
                                                  Choice{Preprocessing::inception, "inception"},
                                                  Choice{Preprocessing::clip, "clip"},
                                                  Choice{Preprocessing::unit, "unit"},
                                                  Choice{Preprocessing::bytes, "bytes"},
                                                  Choice{Preprocessing::tensorflow, "tensorflow"}};

inline constexpr std::array fit_choices{Choice{Fit::crop, "crop"}, Choice{Fit::pad, "pad"},
                                        Choice{Fit::squash, "squash"}};

/// Number of classes of synthetic data.
inline constexpr std::int64_t imagenet_classes = 1000;

struct PictureOptions {
  std::int64_t image_size = 224;     ///< height and width of the images
  std::int64_t eval_image_size = 0;  ///< height and width in evaluations and predictions; 0: image_size
  Preprocessing preprocessing = Preprocessing::torchvision;
  Fit fit = Fit::crop;  ///< how pictures become square images
  /// Smallest area of a random crop, as a fraction of the picture's area. 0: the default of `preprocessing`.
  double min_crop_area = 0.0;
  bool mirror = true;             ///< mirror half of the training images left-right
  bool flip_vertical = false;     ///< flip half of the training images top-bottom
  bool quarter_turns = false;     ///< turn training images by 0, 90, 180 or 270 degrees
  double color_jitter = 0.0;      ///< largest relative change of brightness, contrast and saturation
  RandAugment rand_augment = {};  ///< random ops on training images
  double random_erasing = 0.0;    ///< probability that a box of a training image is erased
  std::string task = "auto";      ///< name from named_tasks; "auto": task in records.json, else a classification
  std::int64_t classes = 0;       ///< number of classes, labels or numbers; 0: from records.json
  std::int64_t first_label = -1;  ///< label of the first class; -1: from records.json, or trained_first_label
  // Not options:
  std::int64_t trained_first_label = 1;
  std::vector<std::string> class_names = {};  ///< empty: unknown
  Colour background = {};                     ///< colour behind transparent pixels, from records.json
  std::vector<NumberScale> scales = {};       ///< scales of the numbers of a regression; empty: not standardised

  /// Returns the kind of the targets. The options must be resolved.
  TargetKind target() const { return target_of_task(task).value_or(TargetKind::class_index); }
};

void declare(OptionSet& set, PictureOptions& options);
ImageShape training_shape(const PictureOptions& options);
ImageShape evaluation_shape(const PictureOptions& options);

/// Checks the value of --eval-image-size. Errors: usage.
void check_evaluation_size(std::int64_t size);

/// Sets the record form and the normalisation of `data`, and the classes of `pictures`, from records.json. `seed`: seed
/// of the random crops. Errors: no_input, data (a bad records.json, or training and evaluation records with different
/// classes), usage (the number of classes is unknown); errors of check_evaluation_size.
void resolve_pictures(PictureOptions& pictures, DataOptions& data, std::uint64_t seed);

/// Adds the facts about resolved pictures that a checkpoint stores in addition to the options.
void describe_pictures(const PictureOptions& pictures, const RecordSchema& schema, RunDescription& description);

/// Reads the picture options from the options of a checkpoint. Returns nullopt if the checkpoint is not from
/// image_train. Errors: data, without the name of the file.
std::optional<PictureOptions> described_pictures(const std::string& options_json);

/// Returns the form of the records of an evaluation. `patterns`: patterns of the record files; may be empty. Errors:
/// see resolve_pictures.
RecordForm evaluation_form(const PictureOptions& pictures, const std::vector<std::string>& patterns);
PixelNormalization normalization_of(Preprocessing preprocessing);

/// How evaluations decode a picture. With Fit::crop, the shorter side is resized to 8/7 of image_size or to
/// eval_image_size, whichever is larger. The factor 8/7 suits trainings with crops of at least half of a picture.
PictureDecoding evaluation_decoding(const PictureOptions& pictures);

}  // namespace carillon
