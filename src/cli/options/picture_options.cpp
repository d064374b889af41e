#include "src/cli/options/picture_options.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "src/core/text.h"

namespace carillon {
namespace {

constexpr std::int64_t min_image_size = 8, max_image_size = 4096;

/// The names of the options in a checkpoint that store the scales of a regression.
constexpr const char* means_name = "target means";
constexpr const char* deviations_name = "target deviations";

/// Evaluations resize the shorter side of a picture to this length before they crop the centre: 256 for images of 224.
std::int64_t shorter_side(std::int64_t image_size) { return (image_size * 8 + 3) / 7; }

bool is_evaluation_size(std::int64_t size) { return size == 0 || (size >= min_image_size && size <= max_image_size); }

CropRule crop_rule(const PictureOptions& options) {
  CropRule rule;
  if (options.preprocessing == Preprocessing::tensorflow) {
    rule = {.kind = CropRule::Kind::tensorflow, .min_area = 0.05, .min_ratio = 0.75, .max_ratio = 1.33};
  }
  if (options.min_crop_area > 0.0) rule.min_area = options.min_crop_area;
  return rule;
}

/// Checks that `found`, the contents of a records.json, has the task, the number of classes and (if given) the class
/// names of `known`. `place`: name of the file in messages. Errors: data.
void check_same(const DatasetInfo& found, const PictureOptions& known, const std::string& place) {
  if (found.target != known.target()) {
    fail(ExitCode::data, "{}: its task is {}, expected {}", place, task_name(found.target), task_name(known.target()));
  }
  const auto class_count = static_cast<std::size_t>(known.classes);
  if (found.classes.size() != class_count) {
    fail(ExitCode::data, "{}: names {} {}, expected {}", place, found.classes.size(), target_words(known.target()),
         class_count);
  }
  for (std::size_t i = 0; i < known.class_names.size(); ++i) {
    if (found.classes[i] == known.class_names[i]) continue;
    fail(ExitCode::data, "{}: {} {} is '{}', expected '{}'", place, target_word(known.target()), i,
         printable(found.classes[i]), printable(known.class_names[i]));
  }
}

std::string place_of(const std::vector<std::string>& patterns) {
  return fmt::format("{} of {}", dataset_info_name, printable(patterns.front()));
}

/// Checks that --first-label agrees with records.json, because another first label would shift all classes. Errors:
/// usage.
void check_first_label(const PictureOptions& options, const DatasetInfo& form, const std::string& place) {
  const bool is_given = options.first_label >= 0 && form.target != TargetKind::numbers;
  if (!is_given || options.first_label == form.first_label) return;
  fail(ExitCode::usage, "--first-label {} contradicts {}, which has the first label {}: omit it", options.first_label,
       place, form.first_label);
}

RecordSchema schema_of(const PictureOptions& options, const std::optional<DatasetInfo>& form) {
  DatasetInfo usual;
  if (options.target() == TargetKind::numbers) usual.keys.label = numbers_key;
  return {.keys = form ? form->keys : usual.keys,
          .image_shape = training_shape(options),
          .class_count = options.classes,
          .first_label = options.first_label >= 0 ? options.first_label
                         : form                   ? form->first_label
                                                  : options.trained_first_label,
          .target = options.target(),
          .scales = options.scales};
}

/// Returns the task that --task or records.json sets. Errors: usage (they contradict each other).
std::string resolved_task(const PictureOptions& pictures, const std::optional<DatasetInfo>& form,
                          const std::string& place) {
  const bool is_given = target_of_task(pictures.task).has_value();
  if (!form) return std::string(is_given ? std::string_view(pictures.task) : task_name(TargetKind::class_index));
  const std::string_view found = task_name(form->target);
  if (is_given && pictures.task != found) {
    fail(ExitCode::usage, "--task {} contradicts {}, which has the task {}", pictures.task, place, found);
  }
  return std::string(found);
}

/// Reads the scales from the options of a checkpoint. Throws std::exception if they are invalid.
std::vector<NumberScale> described_scales(const nlohmann::json& json, std::size_t count) {
  if (!json.contains(means_name)) return {};
  const std::vector<double> means = json.at(means_name), deviations = json.at(deviations_name);
  return scales_from(means, deviations, count);
}

/// Parses "2,9" or "0".
RandAugment parse_rand_augment(const std::string& text) {
  constexpr std::int64_t max_ops = 14;
  if (text == "0") return {};
  try {
    const std::size_t comma = text.find(',');
    if (comma != std::string::npos) {
      return {.op_count = parse_integer(text.substr(0, comma), 1, max_ops),
              .magnitude = parse_integer(text.substr(comma + 1), 0, max_augment_magnitude)};
    }
  } catch (const ValueExpected&) {
    // Ignored here: the error below contains the whole text.
  }
  throw ValueExpected{fmt::format("0, or N,M with N from 1 to {} and M from 0 to {}", max_ops, max_augment_magnitude)};
}

std::string text_of(const RandAugment& augment) {
  return augment.op_count == 0 ? "0" : fmt::format("{},{}", augment.op_count, augment.magnitude);
}

/// Returns the colour that `normalization` maps to the values nearest to 0.
Colour mean_colour(const PixelNormalization& normalization) {
  const auto level = [&](std::size_t channel) {
    return static_cast<std::uint8_t>(std::lround(255.0f * normalization.mean[channel]));
  };
  return {level(0), level(1), level(2)};
}

}  // namespace

void declare(OptionSet& set, PictureOptions& o) {
  set.begin_group("Data", Scope::result);
  set.add("image-size", o.image_size, min_image_size, max_image_size,
          "height and width of the training images, in pixels, 8 to 4096; also of evaluated images, unless "
          "--eval-image-size is set");
  set.add("eval-image-size", o.eval_image_size, 0, max_image_size,
          "height and width of evaluated and predicted images, in pixels, 8 to 4096; 8/7 of --image-size shows the "
          "whole shorter side of a picture; 0: as --image-size")
      .scope = Scope::run;
  set.add("preprocessing", o.preprocessing, preprocessing_choices,
          "crop, resize and normalisation, as in the ImageNet trainings of torchvision or TensorFlow. As torchvision, "
          "with other pixels: inception: -1 to 1 (timm's vision transformers); clip: normalised as for OpenAI's CLIP; "
          "unit: 0 to 1; bytes: 0 to 255 (networks of Keras that normalise their input)");
  set.add(
      "fit", o.fit, fit_choices,
      "how pictures become square images: crop: a square part; pad: the whole picture with bars of the mean colour; "
      "squash: the whole picture, stretched. Training images show random parts of the result (--distort)");
  set.add(
      "min-crop-area", o.min_crop_area, NumberRange::below_one,
      "smallest fraction of a picture in a training image; 0: 0.05 with --preprocessing tensorflow, otherwise 0.08");
  set.add("mirror", o.mirror, "mirror half of the training images left-right (--distort)");
  set.add("flip-vertical", o.flip_vertical,
          "flip half of the training images top-bottom, for pictures without an upright position (--distort)");
  set.add("quarter-turns", o.quarter_turns,
          "turn training images by 0, 90, 180 or 270 degrees, for pictures without an upright position (--distort)");
  set.add(
      "color-jitter", o.color_jitter, NumberRange::unit,
      "X: multiply brightness, contrast and saturation of training images by random factors from 1 - X to 1 + X, as "
      "torchvision's ColorJitter(X, X, X) (--distort); 0: disabled");
  std::vector<std::string> tasks{"auto"};
  for (const NamedTask& named : named_tasks) tasks.emplace_back(named.task);
  set.add("task", o.task, tasks,
          "target of a picture: one class, any number of labels, or numbers; auto: as in records.json, else "
          "classification");
  set.add({.name = "rand-augment",
           .help = "N,M: N random changes of each training image with strength M of 0 to 30, as torchvision's "
                   "RandAugment, e.g. 2,9 (--distort); 0: disabled",
           .set = [&o](const auto& texts) { o.rand_augment = parse_rand_augment(texts.front()); },
           .get = [&o] { return text_of(o.rand_augment); }});
  set.add("random-erasing", o.random_erasing, NumberRange::unit,
          "probability that a box of a training image gets the mean colour, as in torchvision's RandomErasing "
          "(--distort); 0: disabled");
  set.add("classes", o.classes, 0, static_cast<std::int64_t>(max_classes),
          "number of classes, labels or numbers; 0: as in records.json")
      .scope = Scope::run;
  set.add("first-label", o.first_label, -1, 1, "label of the first class; -1: as in records.json, else 1").scope =
      Scope::run;
}

ImageShape training_shape(const PictureOptions& options) {
  return {.height = options.image_size, .width = options.image_size, .channels = 3};
}

ImageShape evaluation_shape(const PictureOptions& options) {
  const std::int64_t size = options.eval_image_size > 0 ? options.eval_image_size : options.image_size;
  return {.height = size, .width = size, .channels = 3};
}

PictureDecoding evaluation_decoding(const PictureOptions& pictures) {
  const bool is_tensorflow = pictures.preprocessing == Preprocessing::tensorflow;
  return {.fit = pictures.fit,
          .crop = crop_rule(pictures),
          .shorter = std::max(shorter_side(pictures.image_size), evaluation_shape(pictures).height),
          .resampling = is_tensorflow ? Resampling::top_left_aligned : Resampling::antialiased,
          .background = pictures.background,
          .padding = mean_colour(normalization_of(pictures.preprocessing))};
}

PixelNormalization normalization_of(Preprocessing preprocessing) {
  constexpr float of_255 = 1.0f / 255.0f;
  switch (preprocessing) {
    case Preprocessing::torchvision:
      return {.mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}};
    case Preprocessing::inception:
      return {.mean = {0.5f, 0.5f, 0.5f}, .deviation = {0.5f, 0.5f, 0.5f}};
    case Preprocessing::clip:
      return {.mean = {0.48145466f, 0.4578275f, 0.40821073f}, .deviation = {0.26862954f, 0.26130258f, 0.27577711f}};
    case Preprocessing::unit:
      return {.mean = {}, .deviation = {1.0f, 1.0f, 1.0f}};
    case Preprocessing::bytes:
      return {.mean = {}, .deviation = {of_255, of_255, of_255}};
    case Preprocessing::tensorflow:
      break;
  }
  return {.mean = {123.68f / 255.0f, 116.78f / 255.0f, 103.94f / 255.0f}, .deviation = {of_255, of_255, of_255}};
}

void check_evaluation_size(std::int64_t size) {
  if (is_evaluation_size(size)) return;
  fail(ExitCode::usage, "--eval-image-size {}: expected 0, or {} to {}", size, min_image_size, max_image_size);
}

void resolve_pictures(PictureOptions& pictures, DataOptions& data, std::uint64_t seed) {
  check_evaluation_size(pictures.eval_image_size);
  const bool synthetic = is_synthetic(data.files);
  const std::optional<DatasetInfo> form = synthetic ? std::nullopt : dataset_info_of_files(data.files);
  pictures.task = resolved_task(pictures, form, place_of(data.files));
  if (synthetic && pictures.classes == 0) pictures.classes = imagenet_classes;
  if (form) {
    check_first_label(pictures, *form, place_of(data.files));
    const auto count = static_cast<std::int64_t>(form->classes.size());
    if (pictures.classes > 0 && pictures.classes != count) {
      fail(ExitCode::usage, "--classes {} contradicts {}, which names {} {}", pictures.classes, place_of(data.files),
           count, target_words(form->target));
    }
    pictures.classes = count;
    pictures.class_names = form->classes;
    pictures.background = form->background;
    pictures.scales = form->scales;
  }
  if (pictures.classes == 0) {
    fail(ExitCode::usage, "--classes is missing, and the folder of {} has no {} (tfrecord_convert images writes it)",
         printable(data.files.front()), dataset_info_name);
  }
  if (!data.eval_files.empty() && !is_synthetic(data.eval_files)) {
    const std::optional<DatasetInfo> other = dataset_info_of_files(data.eval_files);
    if (other) {
      check_same(*other, pictures, place_of(data.eval_files));
      check_first_label(pictures, *other, place_of(data.eval_files));
      if (form && (other->first_label != form->first_label || other->keys.image != form->keys.image ||
                   other->keys.label != form->keys.label || other->background != form->background)) {
        fail(ExitCode::data, "{}: the keys, the first label or the background differ from {}",
             place_of(data.eval_files), place_of(data.files));
      }
    }
  }
  const PictureDecoding evaluation = evaluation_decoding(pictures);
  PictureDecoding training = evaluation;
  training.shorter = shorter_side(pictures.image_size);
  training.distorts = data.distort;
  training.mirrors = pictures.mirror;
  training.flips = pictures.flip_vertical;
  training.turns = pictures.quarter_turns;
  training.color_jitter = pictures.color_jitter;
  training.augment = pictures.rand_augment;
  training.erasing = pictures.random_erasing;
  training.erasing_fill = mean_colour(normalization_of(pictures.preprocessing));
  training.seed = seed;
  data.record_form = {
      .make_decoder =
          [training, evaluation, shape = evaluation_shape(pictures)](RecordSchema schema, RecordUse use) {
            const bool evaluates = use == RecordUse::evaluation;
            if (evaluates) schema.image_shape = shape;
            return make_picture_decoder(std::move(schema), evaluates ? evaluation : training);
          },
      .schema = schema_of(pictures, form),
      .decoder_distorts = true};
  data.normalization = normalization_of(pictures.preprocessing);
}

void describe_pictures(const PictureOptions& pictures, const RecordSchema& schema, RunDescription& description) {
  description.add("class count", schema.class_count, Scope::result);
  description.add("first class label", schema.first_label, Scope::result);
  if (!pictures.class_names.empty()) description.add("class names", pictures.class_names, Scope::result);
  if (pictures.background != Colour{}) {
    description.add("background", colour_text(pictures.background), Scope::result);
  }
  if (pictures.scales.empty()) return;
  std::vector<double> means, deviations;
  for (const NumberScale& scale : pictures.scales) {
    means.push_back(scale.mean);
    deviations.push_back(scale.deviation);
  }
  description.add(means_name, means, Scope::result);
  description.add(deviations_name, deviations, Scope::result);
}

std::optional<PictureOptions> described_pictures(const std::string& options_json) {
  const nlohmann::json json = nlohmann::json::parse(options_json, nullptr, false);
  if (!json.is_object() || !json.contains("image_size")) return std::nullopt;
  PictureOptions pictures;
  try {
    pictures.image_size = json.at("image_size");
    pictures.eval_image_size = json.value("eval_image_size", std::int64_t{0});
    pictures.classes = json.at("class count");
    pictures.trained_first_label = json.at("first class label");
    const std::string form = json.at("preprocessing");
    const auto found = std::ranges::find(preprocessing_choices, form, &Choice<Preprocessing>::text);
    const bool is_known = found != preprocessing_choices.end();
    if (is_known) pictures.preprocessing = found->value;
    const std::string fit = json.value("fit", "crop");
    const auto* const found_fit = std::ranges::find(fit_choices, fit, &Choice<Fit>::text);
    const bool is_known_fit = found_fit != fit_choices.end();
    if (is_known_fit) pictures.fit = found_fit->value;
    if (json.contains("class names")) pictures.class_names = json["class names"].get<std::vector<std::string>>();
    pictures.task = json.value("task", task_name(TargetKind::class_index));
    pictures.scales = described_scales(json, static_cast<std::size_t>(std::max<std::int64_t>(0, pictures.classes)));
    const std::optional<Colour> background = parse_colour(json.value("background", "white"));
    pictures.background = background.value_or(Colour{});
    const bool is_sound =
        background.has_value() && target_of_task(pictures.task).has_value() && is_known && is_known_fit &&
        pictures.image_size >= min_image_size && pictures.image_size <= max_image_size &&
        is_evaluation_size(pictures.eval_image_size) && pictures.classes >= 1 &&
        pictures.classes <= static_cast<std::int64_t>(max_classes) &&
        (pictures.class_names.empty() || static_cast<std::int64_t>(pictures.class_names.size()) == pictures.classes);
    if (is_sound) return pictures;
  } catch (const std::exception&) {
    // the error is reported below
  }
  fail(ExitCode::data, "its options do not describe the preprocessing of pictures");
}

RecordForm evaluation_form(const PictureOptions& pictures, const std::vector<std::string>& patterns) {
  std::optional<DatasetInfo> form;
  if (!patterns.empty() && !is_synthetic(patterns)) form = dataset_info_of_files(patterns);
  if (form) {
    check_same(*form, pictures, place_of(patterns));
    check_first_label(pictures, *form, place_of(patterns));
  }
  RecordSchema schema = schema_of(pictures, form);
  schema.image_shape = evaluation_shape(pictures);
  const auto make = [decoding = evaluation_decoding(pictures)](RecordSchema own, RecordUse /*use*/) {
    return make_picture_decoder(std::move(own), decoding);
  };
  return {.make_decoder = make, .schema = std::move(schema), .decoder_distorts = true};
}

}  // namespace carillon
