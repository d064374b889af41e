#include "src/app/picture_options.h"

#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/core/printable.h"
#include "src/train/input/open_records.h"

namespace carillon {
namespace {

constexpr std::int64_t max_image_size = 4096, imagenet_classes = 1000;

/// Side of a picture, resized, for a middle part of `image_size`: 256 for 224.
std::int64_t shorter_side(std::int64_t image_size) { return (image_size * 8 + 3) / 7; }

CropRule crop_rule(const PictureOptions& options) {
  CropRule rule;
  if (options.preprocessing == Preprocessing::tensorflow) {
    rule = {.kind = CropRule::Kind::tensorflow, .min_area = 0.05, .min_ratio = 0.75, .max_ratio = 1.33};
  }
  if (options.min_crop_area > 0.0) rule.min_area = options.min_crop_area;
  return rule;
}

/// `found` beside some records, held against what is known of the classes. Errors: data.
void check_same(const DatasetInfo& found, const PictureOptions& known, const std::string& place) {
  const auto class_count = static_cast<std::size_t>(known.classes);
  if (found.classes.size() != class_count) {
    fail(ExitCode::data, "{}: its records are of {} classes, not of {}", place, found.classes.size(), class_count);
  }
  for (std::size_t i = 0; i < known.class_names.size(); ++i) {
    if (found.classes[i] == known.class_names[i]) continue;
    fail(ExitCode::data, "{}: class {} of its records is '{}', not '{}'", place, i, printable(found.classes[i]),
         printable(known.class_names[i]));
  }
}

std::string place_of(const std::vector<std::string>& patterns) {
  return fmt::format("{} beside {}", dataset_info_name, printable(patterns.front()));
}

RecordSchema schema_of(const PictureOptions& options, const std::optional<DatasetInfo>& form) {
  const DatasetInfo usual;
  const DatasetInfo& keys = form ? *form : usual;
  return {.keys = keys.keys,
          .image_shape = shape_of(options),
          .class_count = options.classes,
          .first_label = options.first_label >= 0 ? options.first_label
                         : form                   ? form->first_label
                                                  : options.trained_first_label};
}

}  // namespace

void declare(OptionSet& set, PictureOptions& o) {
  set.add("image-size", o.image_size, 8, max_image_size, "height and width of what the network sees", Scope::result);
  set.add("preprocessing", o.preprocessing, preprocessing_choices,
          "how pictures are cropped, resized and normalised: as torchvision's or TensorFlow's ImageNet trainings do",
          Scope::result);
  set.add("min-crop-area", o.min_crop_area, OptionSet::Interval::below_one,
          "smallest part of a picture that is trained on; 0: 0.08, tensorflow: 0.05", Scope::result);
  set.add("mirror", o.mirror, "with distort, mirror half of the training images left-right", Scope::result);
  set.add("classes", o.classes, 0, static_cast<std::int64_t>(max_classes),
          "number of classes of records that have no records.json beside them");
  set.add("first-label", o.first_label, -1, 1,
          "label of the first class in such records; -1: 1, as ImageNet's have it");
}

ImageShape shape_of(const PictureOptions& options) {
  return {.height = options.image_size, .width = options.image_size, .channels = 3};
}

PictureDecoding evaluation_decoding(const PictureOptions& pictures) {
  const bool is_tensorflow = pictures.preprocessing == Preprocessing::tensorflow;
  return {.crop = crop_rule(pictures),
          .shorter = shorter_side(pictures.image_size),
          .resampling = is_tensorflow ? Resampling::corner_aligned : Resampling::antialiased};
}

PixelNormalization normalization_of(Preprocessing preprocessing) {
  if (preprocessing == Preprocessing::torchvision) {
    return {.mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}};
  }
  constexpr float of_255 = 1.0f / 255.0f;
  return {.mean = {123.68f / 255.0f, 116.78f / 255.0f, 103.94f / 255.0f}, .deviation = {of_255, of_255, of_255}};
}

void resolve_pictures(PictureOptions& pictures, TrainOptions& options) {
  const bool synthetic = is_synthetic(options.data);
  const std::optional<DatasetInfo> form = synthetic ? std::nullopt : dataset_info_of_files(options.data);
  if (synthetic && pictures.classes == 0) pictures.classes = imagenet_classes;
  if (form) {
    const auto count = static_cast<std::int64_t>(form->classes.size());
    if (pictures.classes > 0 && pictures.classes != count) {
      fail(ExitCode::usage, "--classes {}: {} names {} classes", pictures.classes, place_of(options.data), count);
    }
    pictures.classes = count;
    pictures.class_names = form->classes;
  }
  if (pictures.classes == 0) {
    fail(ExitCode::usage,
         "--classes: say how many classes the records have; no {}, as tfrecord_convert images writes "
         "it, is beside {}",
         dataset_info_name, printable(options.data.front()));
  }
  if (!options.eval_data.empty() && !is_synthetic(options.eval_data)) {
    const std::optional<DatasetInfo> other = dataset_info_of_files(options.eval_data);
    if (other) {
      check_same(*other, pictures, place_of(options.eval_data));
      if (form && (other->first_label != form->first_label || other->keys.image != form->keys.image ||
                   other->keys.label != form->keys.label)) {
        fail(ExitCode::data, "{}: keys or first label of its records are not those of {}", place_of(options.eval_data),
             place_of(options.data));
      }
    }
  }
  PictureDecoding training = evaluation_decoding(pictures);
  training.distorts = options.distort;
  training.mirrors = pictures.mirror;
  training.seed = options.seed;
  options.record_form = {.make_decoder =
                             [training](RecordSchema schema, RecordUse use) {
                               PictureDecoding decoding = training;
                               if (use == RecordUse::evaluation) decoding.distorts = false;
                               return make_picture_decoder(std::move(schema), decoding);
                             },
                         .schema = schema_of(pictures, form),
                         .decoder_distorts = true};
  options.normalization = normalization_of(pictures.preprocessing);
}

void describe_pictures(const PictureOptions& pictures, const TrainOptions& options, RunDescription& description) {
  description.add("class count", options.record_form.schema.class_count, Scope::result);
  description.add("first class label", options.record_form.schema.first_label, Scope::result);
  if (!pictures.class_names.empty()) description.add("class names", pictures.class_names, Scope::result);
}

std::optional<PictureOptions> described_pictures(const std::string& options_json) {
  const nlohmann::json json = nlohmann::json::parse(options_json, nullptr, false);
  if (!json.is_object() || !json.contains("image_size")) return std::nullopt;
  PictureOptions pictures;
  try {
    pictures.image_size = json.at("image_size");
    pictures.classes = json.at("class count");
    pictures.trained_first_label = json.at("first class label");
    const std::string form = json.at("preprocessing");
    const auto found = std::ranges::find(preprocessing_choices, form, &Choice<Preprocessing>::text);
    const bool is_known = found != preprocessing_choices.end();
    if (is_known) pictures.preprocessing = found->value;
    if (json.contains("class names")) pictures.class_names = json["class names"].get<std::vector<std::string>>();
    const bool is_sound =
        is_known && pictures.image_size >= 8 && pictures.image_size <= max_image_size && pictures.classes >= 1 &&
        pictures.classes <= static_cast<std::int64_t>(max_classes) &&
        (pictures.class_names.empty() || static_cast<std::int64_t>(pictures.class_names.size()) == pictures.classes);
    if (is_sound) return pictures;
  } catch (const nlohmann::json::exception&) {
    // told below
  }
  fail(ExitCode::data, "its options do not say what its network makes of pictures");
}

RecordForm evaluation_form(const PictureOptions& pictures, const std::vector<std::string>& patterns) {
  std::optional<DatasetInfo> form;
  if (!patterns.empty() && !is_synthetic(patterns)) form = dataset_info_of_files(patterns);
  if (form) check_same(*form, pictures, place_of(patterns));
  const PictureDecoding decoding = evaluation_decoding(pictures);
  return {.make_decoder = [decoding](RecordSchema schema,
                                     RecordUse /*use*/) { return make_picture_decoder(std::move(schema), decoding); },
          .schema = schema_of(pictures, form),
          .decoder_distorts = true};
}

}  // namespace carillon
