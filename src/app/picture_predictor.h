// PicturePredictor: the classes, labels or numbers that a trained network predicts for picture files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/app/program_spec.h"
#include "carillon/images/view.h"
#include "src/checkpoint/checkpoint.h"
#include "src/train/evaluation/evaluator.h"

namespace carillon {

struct PredictorSettings {
  std::size_t batch_size = 32;
  TrainedValues values = TrainedValues::moving_averages;
  bool test_time_augmentation = false;
};

class PicturePredictor {
 public:
  /// `device` must outlive the predictor. Errors: data (none of the program specs has the checkpoint's model; a damaged
  /// checkpoint), usage (a batch takes more than the host's memory).
  PicturePredictor(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs,
                   const PredictorSettings& settings, Device& device);

  const ImageShape& image_shape() const { return network_.image; }
  TargetKind target() const { return target_; }
  std::size_t class_count() const { return class_names_.size(); }
  /// Name of a class, label or number; its index if it has no name.
  const std::string& class_name(std::size_t i) const { return class_names_[i]; }
  std::size_t batch_size() const { return settings_.batch_size; }
  /// The colour behind transparent pixels, as in the training.
  const Colour& background() const { return decoding_.background; }

  /// Decodes a JPEG or PNG file and writes the network's input to `image`, image_shape().bytes() long: the centre of
  /// the picture, as in evaluations, in grey if the network's images have one channel. Thread-safe. Errors: those of
  /// decode_part.
  void read_image(std::span<const std::uint8_t> file, std::span<std::uint8_t> image) const;

  /// For each of up to batch_size() images, the probabilities of the classes or labels, or the numbers. Errors: failed
  /// (a non-finite output).
  std::vector<std::vector<double>> predict(std::span<const std::uint8_t* const> images);

 private:
  /// What the outputs of one image mean.
  std::vector<double> prediction(std::span<const float> outputs) const;

  Network network_;
  PredictorSettings settings_;
  PictureDecoding decoding_;
  TargetKind target_ = TargetKind::class_index;
  std::vector<NumberScale> scales_;
  std::vector<std::string> class_names_;
  Evaluator evaluator_;
};

}  // namespace carillon
