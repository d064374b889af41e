// Picture options: what image_train and image_eval make of pictures of any kind.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "carillon/train/train_options.h"
#include "src/app/option_set.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

/// How pictures become a network's images: the two forms that ImageNet's results are reported with.
enum class Preprocessing {
  torchvision,  ///< RandomResizedCrop, antialiased; pixels normalised by ImageNet's means and deviations
  tensorflow,   ///< distorted bounding boxes, resize_bilinear; ImageNet's means subtracted from pixels 0..255
};

inline constexpr std::array preprocessing_choices{Choice{Preprocessing::torchvision, "torchvision"},
                                                  Choice{Preprocessing::tensorflow, "tensorflow"}};

struct PictureOptions {
  std::int64_t image_size = 224;
  Preprocessing preprocessing = Preprocessing::torchvision;
  double min_crop_area = 0.0;  ///< part of a picture; 0: the form's
  bool mirror = true;
  std::int64_t classes = 0;       ///< 0: those of records.json
  std::int64_t first_label = -1;  ///< in the records; -1: that of records.json, or 1
  // Not options:
  std::int64_t trained_first_label = 1;       ///< of records that name none
  std::vector<std::string> class_names = {};  ///< none: not known
};

void declare(OptionSet& set, PictureOptions& options);
ImageShape shape_of(const PictureOptions& options);

/// Puts the form of the records of `options` there, and what networks are to know of it; `pictures` hears of the
/// classes. Errors: no_input, data (records.json; sets of different classes), usage (classes that nobody names).
void resolve_pictures(PictureOptions& pictures, TrainOptions& options);

/// What a checkpoint is to hold besides the options: that of settled pictures.
void describe_pictures(const PictureOptions& pictures, const TrainOptions& options, RunDescription& description);

/// What describe_pictures and the options say in a checkpoint; nothing where its pictures are another program's.
/// Errors: data, without the file's name.
std::optional<PictureOptions> described_pictures(const std::string& options_json);

/// The form of records to evaluate on, by what `patterns`, which may be none, have beside them. Errors: as
/// resolve_pictures.
RecordForm evaluation_form(const PictureOptions& pictures, const std::vector<std::string>& patterns);
PixelNormalization normalization_of(Preprocessing preprocessing);

/// What is made of a picture to evaluate it.
PictureDecoding evaluation_decoding(const PictureOptions& pictures);

}  // namespace carillon
