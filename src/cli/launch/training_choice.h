// Training choice: the network, image size, batch, learning rate and length of a training that `carillon train` chooses
// for a set of pictures and a machine. The rule is documented in docs/user-guide/carillon.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/images/view.h"
#include "carillon/models/network.h"

namespace carillon {

/// The shortest time that the rule plans for a training if the user sets no time.
inline constexpr double shortest_training_seconds = 180.0;

/// A network at an image size.
struct Candidate {
  std::string network;
  std::int64_t image_size = 0;

  bool operator==(const Candidate&) const = default;
};

/// Returns the network of a candidate at its image size. Errors: usage (the network does not support images of this
/// size).
Network network_of(const Candidate& candidate);
/// True for the built-in vision transformers, because most of timm's weights for these networks expect pixels from -1
/// to 1. False for the network of an ONNX file, even if it has attention.
bool expects_inception_pixels(const Candidate& candidate);
/// Checks that the candidate's network can evaluate images of `size` pixels; 0: the candidate's image size. Errors:
/// usage (the message names --eval-image-size).
void check_evaluates(const Candidate& candidate, std::int64_t size);

/// Returns the value of --eval-image-size that the rule sets for a candidate: the multiple of 8 that is nearest to 8/7
/// of its image size. Returns 0, which means the image size, if this multiple is not larger than the image size, or if
/// the network does not support it. The crops of training images enlarge pictures by about 8/7. An evaluation at this
/// size therefore shows nearly the whole shorter side at the same scale. Source: Touvron et al., "Fixing the train-test
/// resolution discrepancy", 2019.
std::int64_t evaluation_size_for(const Candidate& candidate);

/// Returns the candidates of the rule, in ascending order of their work per picture.
std::vector<Candidate> training_candidates();

/// Returns the image sizes from which the rule chooses for a fine-tuning, in ascending order.
std::vector<std::int64_t> fine_tuning_sizes();

/// Choices that the user made on the command line.
struct FixedChoices {
  std::optional<std::string> network;
  std::optional<std::int64_t> image_size;
};

/// The median shape of pictures.
struct UsualShape {
  std::int64_t side = 0;    ///< length of the shorter side in pixels; 0: unknown
  double elongation = 1.0;  ///< ratio of the longer side to the shorter side
};

/// Pictures with a larger elongation are squashed, because a centre crop would remove more than a third of each
/// picture.
inline constexpr double longest_cropped = 1.5;

struct ChoiceInput {
  std::int64_t pictures = 0;      ///< number of training pictures
  UsualShape shape = {};          ///< median shape of the pictures
  std::optional<double> seconds;  ///< time for the training; nullopt: choose_training plans the time
  /// Returns the seconds per picture that a training of the candidate takes on this machine with all cores or all GPUs.
  std::function<double(const Candidate&)> seconds_per_picture;
  /// Returns true if there is time to measure another candidate. Otherwise the rule keeps the last suitable candidate.
  std::function<bool()> may_measure = [] { return true; };
  std::int64_t batch_size = 0;  ///< pictures per step, over all ranks
  FixedChoices fixed;
  bool fine_tunes = false;  ///< the training starts from given weights of `fixed.network`, so fewer epochs are enough
  TargetKind target = TargetKind::class_index;
  std::string preprocessing = {};  ///< --preprocessing that the given weights expect; empty: the network's default
};

struct TrainingChoice {
  Candidate candidate;
  std::int64_t batch_size = 0;  ///< pictures per step, over all ranks
  double seconds = 0.0;         ///< the time for the training
  bool fine_tunes = false;
  Fit fit = Fit::crop;
  TargetKind target = TargetKind::class_index;
  std::string preprocessing = {};    ///< --preprocessing; empty: the network's default
  std::int64_t eval_image_size = 0;  ///< --eval-image-size; 0: image size of the candidate
  /// Passes of the fine-tuning (fine_tuning_passes), if the user chose the number of steps. nullopt: image_train adapts
  /// the rate to the time.
  std::optional<double> passes = {};
};

/// Chooses a candidate. The first candidate is always suitable. The choice is the last candidate before the first
/// unsuitable candidate. A candidate is unsuitable if the time is too short to train it for enough epochs, or if it is
/// too short for full_rate_passes of a fine-tuning. A candidate is also
/// unsuitable if its network does not support its image size. A training from nothing also refuses images that are
/// larger than the median shorter side of the pictures. A fine-tuning enlarges pictures, because its weights know
/// objects of the size that they have in large images. If no time is given, the rule plans the time that the first
/// candidate needs for many epochs, within limits.
TrainingChoice choose_training(const ChoiceInput& input);

/// The parts of a training's time, in seconds.
struct TimePlan {
  double training = 0.0;    ///< value for --time-budget
  double evaluation = 0.0;  ///< kept for the last evaluation
};

/// Divides the time that is left of `total` seconds after `elapsed` seconds. Keeps time for most_views views in the
/// last evaluation if they take at most a quarter of the time left, otherwise for one view. `one_view`: expected
/// seconds of an evaluation with one view. Even if the conversion took longer than `total`, the training gets a quarter
/// of `total`.
TimePlan divide_time(double total, double elapsed, double one_view);

/// Returns most_views if the last evaluation with these views exceeds `seconds_left` by at most a tenth of `total`,
/// otherwise 1. `one_view`: expected seconds of an evaluation with one view.
std::int64_t views_within(double one_view, double seconds_left, double total);

/// Returns the seconds of a training that are left for its steps. `fit`: expected seconds of the head fit with all
/// pictures; image_train limits the fit to half of the time. `evaluation`: expected seconds of one of the five
/// evaluations, which together get at most a fifth of the remaining time (evaluation_interval).
double seconds_in_steps(double training, double fit, double evaluation);

/// Returns the number of steps between evaluations during a training of about `steps` steps. All evaluations together
/// take at most about a fifth of the time of the training, on a machine of any speed. `evaluated`: pictures per
/// evaluation.
std::int64_t evaluation_interval(std::int64_t steps, std::int64_t evaluated, std::int64_t batch_size);

/// Returns the largest number of steps that the rule plans. It follows from the largest number of epochs.
std::int64_t most_steps(std::int64_t pictures, std::int64_t batch_size);

/// Returns the default number of pictures per step for a training on this number of pictures.
std::int64_t batch_for(std::int64_t pictures);

/// Returns the number of ranks for a machine with `processors` GPUs or, without GPUs, `processors` cores. It is the
/// largest number up to `processors` that divides the batch and gives each rank at least 16 pictures per step.
std::int64_t ranks_for(std::int64_t batch_size, int processors);

/// Returns lines `name = value` for image_train's option --config. The lines set the optimiser, its schedule over at
/// most `steps` steps, and the augmentation.
std::string training_settings(const TrainingChoice& choice, std::int64_t steps);

/// The settings that the weights of `carillon train --from` require of a training.
struct GivenNetwork {
  std::string network;
  std::string preprocessing;  ///< empty: unknown
};

/// Returns the network of the weights in `from`. `from`: a file of PyTorch's weights, an ONNX file, a checkpoint or a
/// train directory. `model`: the value of --model, if it is given. Errors: usage (the network differs from `model` or
/// does not read pictures); the errors of reading the file.
GivenNetwork network_of_weights(const std::string& from, const std::optional<std::string>& model);

}  // namespace carillon
