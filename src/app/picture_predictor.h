// PicturePredictor: what a trained network takes picture files for.
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
  /// Of a model of one of the program specs. `device` outlives it. Errors: data (no model of theirs, a damaged one).
  PicturePredictor(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs,
                   const PredictorSettings& settings, Device& device);

  const ImageShape& image_shape() const { return network_.image; }
  std::size_t class_count() const { return class_names_.size(); }
  /// Its number where it has no name.
  const std::string& class_name(std::size_t i) const { return class_names_[i]; }
  std::size_t batch_size() const { return settings_.batch_size; }

  /// Writes what the network sees of a JPEG or PNG file to `image`, image_shape().bytes() long: the middle of the
  /// picture, as an evaluation takes it; grey of colours where the network has no others. Safe from several threads.
  /// Errors: those of decode_part.
  void read_image(std::span<const std::uint8_t> file, std::span<std::uint8_t> image) const;

  /// The probabilities of the classes for each of up to batch_size() images. Errors: failed (an output that is not
  /// finite).
  std::vector<std::vector<double>> predict(std::span<const std::uint8_t* const> images);

 private:
  Network network_;
  PredictorSettings settings_;
  PictureDecoding decoding_;
  std::vector<std::string> class_names_;
  Evaluator evaluator_;
};

}  // namespace carillon
