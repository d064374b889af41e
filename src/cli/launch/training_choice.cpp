#include "src/cli/launch/training_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "carillon/cli/program_spec.h"
#include "carillon/core/error.h"
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/layer_norm/layer_norm.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/launch/resolve_training.h"
#include "src/cli/options/picture_options.h"
#include "src/onnx/onnx.h"
#include "src/report/console.h"
#include "src/train/checkpointing/saved_network.h"
#include "src/train/checkpointing/torch_weights.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/head_fit.h"

namespace carillon {
namespace {

/// A candidate is suitable only if the time is enough to train it for this number of epochs. With fewer epochs, a
/// larger network has no advantage.
constexpr double wanted_epochs = 15.0, wanted_fine_tuning_epochs = 5.0;
/// The largest number of epochs that the rule plans. More epochs improve the result little.
constexpr std::int64_t most_epochs = 200;
/// If --minutes is not given, the rule plans the time that the first candidate needs for this number of epochs. The
/// planned time is at least shortest_training_seconds and at most most_seconds.
constexpr double usual_epochs = 100.0, usual_fine_tuning_epochs = 20.0, most_seconds = 1800.0;

/// Networks with layer norms are trained with adamw.
bool has_layer_norms(const Candidate& candidate) { return has_op(network_of(candidate), layer_norm_op); }

/// True if the batch norms train only their shifts. Such networks require a high learning rate for the shifts.
bool has_only_shifts(const Candidate& candidate) {
  const std::vector<OpDescription> ops = network_of(candidate).ops;
  return std::ranges::any_of(ops, [](const OpDescription& op) {
    return op.type == &batch_norm_op && !params_of<BatchNormParams>(op.attributes).trains_scale;
  });
}

std::vector<Candidate> permitted(const FixedChoices& fixed, bool fine_tunes) {
  std::vector<Candidate> candidates;
  if (fine_tunes) {
    for (const std::int64_t size : fine_tuning_sizes()) candidates.push_back({fixed.network.value(), size});
  } else {
    candidates = training_candidates();
  }
  if (fixed.network) {
    std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.network != *fixed.network; });
    if (candidates.empty()) candidates = {{*fixed.network, 64}};
  }
  if (fixed.image_size) {
    const std::string network = candidates.front().network;
    std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.image_size != *fixed.image_size; });
    if (candidates.empty()) candidates = {{network, *fixed.image_size}};
  }
  return candidates;
}

}  // namespace

Network network_of(const Candidate& candidate) {
  const ImageShape image{.height = candidate.image_size, .width = candidate.image_size, .channels = 3};
  return network_named(image_program(), candidate.network)({.image = image, .outputs = 2});
}

bool expects_inception_pixels(const Candidate& candidate) {
  return !is_onnx_file(candidate.network) && has_op(network_of(candidate), attention_op);
}

void check_evaluates(const Candidate& candidate, std::int64_t size) {
  check_evaluation_size(size);
  if (size == 0 || size == candidate.image_size) return;
  try {
    check_same_variables(network_of(candidate), network_of({candidate.network, size}));
  } catch (const Error& error) {
    fail(error.code(), "--eval-image-size {}: {}: omit --eval-image-size", size, error.what());
  }
}

std::int64_t evaluation_size_for(const Candidate& candidate) {
  const std::int64_t size = std::llround(static_cast<double>(candidate.image_size) / 7.0) * 8;
  if (size <= candidate.image_size) return 0;
  try {
    check_evaluates(candidate, size);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return 0;
  }
  return size;
}

std::vector<Candidate> training_candidates() {
  return {{"airbench94", 32}, {"airbench94", 48}, {"airbench94", 64}, {"resnet18", 128}, {"resnet50", 224}};
}

std::vector<std::int64_t> fine_tuning_sizes() { return {64, 96, 128, 160, 224}; }

TrainingChoice choose_training(const ChoiceInput& input) {
  const std::vector<Candidate> candidates = permitted(input.fixed, input.fine_tunes);
  TrainingChoice choice{.candidate = candidates.front(),
                        .batch_size = input.batch_size,
                        .seconds = input.seconds.value_or(0.0),
                        .fine_tunes = input.fine_tunes,
                        .fit = input.shape.elongation > longest_cropped ? Fit::squash : Fit::crop,
                        .target = input.target,
                        .preprocessing = input.preprocessing};
  const double epochs = input.fine_tunes ? wanted_fine_tuning_epochs : wanted_epochs;
  if (!input.seconds) {
    const double usual = input.fine_tunes ? usual_fine_tuning_epochs : usual_epochs;
    const double epoch = static_cast<double>(input.pictures) * input.seconds_per_picture(candidates.front());
    choice.seconds = std::clamp(usual * epoch, shortest_training_seconds, most_seconds);
  }
  const auto takes_too_long = [&](const Candidate& candidate) {
    try {
      const double samples = choice.seconds / input.seconds_per_picture(candidate);
      return samples < epochs * static_cast<double>(input.pictures) ||
             (input.fine_tunes && fine_tuning_passes(samples, input.pictures) < full_rate_passes);
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      return true;  // the network refuses the size, or needs too much memory
    }
  };
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const bool would_enlarge = !input.fine_tunes && input.shape.side > 0 && candidates[i].image_size > input.shape.side;
    if (would_enlarge || !input.may_measure() || takes_too_long(candidates[i])) break;
    choice.candidate = candidates[i];
  }
  return choice;
}

TimePlan divide_time(double total, double elapsed, double one_view) {
  constexpr double least_share = 0.25, most_views_share = 0.25;
  const double all_views = static_cast<double>(most_views) * one_view;
  const double evaluation = all_views <= most_views_share * (total - elapsed) ? all_views : one_view;
  return {.training = std::max({1.0, least_share * total, total - elapsed - evaluation}), .evaluation = evaluation};
}

std::int64_t views_within(double one_view, double seconds_left, double total) {
  constexpr double tolerated_share = 0.1;
  const double seconds = static_cast<double>(most_views) * one_view;
  return seconds <= std::max(0.0, seconds_left) + tolerated_share * total ? most_views : 1;
}

namespace {

constexpr double evaluations = 5.0;            ///< number of evaluations during a training
constexpr double most_evaluation_share = 0.2;  ///< largest share of these evaluations in the time of a training

}  // namespace

double seconds_in_steps(double training, double fit, double evaluation) {
  const double rest = training - std::min(fit, training / 2.0);
  return rest - std::min(evaluations * evaluation, most_evaluation_share * rest);
}

std::int64_t evaluation_interval(std::int64_t steps, std::int64_t evaluated, std::int64_t batch_size) {
  const double in_steps = forward_share * static_cast<double>(evaluated) / static_cast<double>(batch_size);
  const double interval = std::max(static_cast<double>(steps) / evaluations,
                                   in_steps * (1.0 - most_evaluation_share) / most_evaluation_share);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(interval));
}

std::int64_t most_steps(std::int64_t pictures, std::int64_t batch_size) {
  return most_epochs * std::max<std::int64_t>(1, (pictures + batch_size - 1) / batch_size);
}

std::int64_t batch_for(std::int64_t pictures) {
  constexpr std::int64_t most = 128, least = 16, least_steps_per_epoch = 16;
  std::int64_t batch = most;
  while (batch > least && pictures / batch < least_steps_per_epoch) batch /= 2;
  return batch;
}

std::int64_t ranks_for(std::int64_t batch_size, int processors) {
  std::int64_t ranks = std::max(1, processors);
  while (ranks > 1 && (batch_size % ranks != 0 || batch_size / ranks < 16)) --ranks;
  return ranks;
}

namespace {

/// With at most this many pictures per step, a fine-tuning without a head fit freezes batch norms: they keep the
/// statistics of the given weights.
constexpr std::int64_t most_frozen = 32;

}  // namespace

std::string training_settings(const TrainingChoice& choice, std::int64_t steps) {
  std::string lines;
  const auto set = [&lines](std::string_view name, const auto& value) {
    fmt::format_to(std::back_inserter(lines), "{} = {}\n", name, value);
  };
  const auto smooth_labels = [&](double amount) {
    if (choice.target == TargetKind::class_index) set("label-smoothing", amount);
  };
  const auto batch = static_cast<double>(choice.batch_size);
  const bool fits_head =
      choice.fine_tunes && choice.target == TargetKind::class_index && can_fit_head(network_of(choice.candidate));
  const double share = fits_head && choice.passes ? fine_tuning_share(*choice.passes) : 1.0;
  // A path to an ONNX file is not written here, because a config file cannot hold every path.
  if (!is_onnx_file(choice.candidate.network)) set("model", choice.candidate.network);
  set("image-size", choice.candidate.image_size);
  set("eval-image-size", choice.eval_image_size);
  set("global-batch", choice.batch_size);
  set("max-steps", steps);
  set("optimizer", fits_head || has_layer_norms(choice.candidate) ? "adamw" : "nesterov");
  set("schedule", "cosine");
  set("warmup-steps", steps / 10);
  set("min-crop-area", 0.5);
  set("fit", text_of(fit_choices, choice.fit));
  if (!choice.preprocessing.empty()) {
    set("preprocessing", choice.preprocessing);
  } else if (expects_inception_pixels(choice.candidate)) {
    set("preprocessing", "inception");
  }
  if (fits_head) set("fit-head", true);
  if (has_layer_norms(choice.candidate)) {
    set("learning-rate", share * (choice.fine_tunes ? 0.0005 : 0.001) * batch / 256.0);
    if (choice.fine_tunes) set("layer-decay", 0.75);
    set("weight-decay", 0.05);
    set("regularization", 0);
    set("clip-norm", 1);
    smooth_labels(0.1);
  } else if (fits_head) {
    set("learning-rate", share * 0.0004 * std::sqrt(batch / 128.0));
    // The last layer was fitted to outputs with the running statistics. With the statistics of a batch, the outputs
    // would differ.
    if (has_op(network_of(choice.candidate), batch_norm_op)) set("freeze-batch-norm", true);
    set("weight-decay", 0.05);
    set("regularization", 0);
    set("clip-norm", 1);
    smooth_labels(0.1);
  } else if (choice.fine_tunes) {
    set("learning-rate", 0.02 * batch / 256.0);
    set("momentum", 0.9);
    if (choice.batch_size <= most_frozen && has_op(network_of(choice.candidate), batch_norm_op))
      set("freeze-batch-norm", true);
    set("regularization", 0.0001);
    smooth_labels(0.1);
  } else if (has_only_shifts(choice.candidate)) {
    // The settings of jobs/recipes/cifar10_94.cfg, adapted to fewer pictures per step and fewer steps. The learning
    // rate is 0.6 for 128 pictures per step, and proportional to the pictures per step.
    set("learning-rate", 0.6 * batch / 128.0);
    set("momentum", 0.85);
    set("weight-decay", 0.00133);
    set("regularization", 0);
    set("group", "*/beta: rate=64, decay=0.0000208");
    smooth_labels(0.2);
  } else {
    set("learning-rate", 0.1 * batch / 256.0);
    set("momentum", 0.9);
    set("regularization", 0.0005);
    smooth_labels(0.1);
  }
  return lines;
}

namespace {

std::string preprocessing_of(const LoadedCheckpoint& loaded) {
  const std::optional<PictureOptions> pictures = trained_pictures(loaded);
  return pictures ? text_of(preprocessing_choices, pictures->preprocessing) : "";
}

/// Returns the built-in networks, with the names that PyTorch uses for them.
std::vector<Network> networks_of_torch() {
  const NetworkSettings settings{.image = {.height = 64, .width = 64, .channels = 3}, .outputs = 1};
  std::vector<Network> networks;
  for (const std::string& name : network_names(image_program())) {
    Network network = network_named(image_program(), name)(settings);
    if (!network.torch_names.empty()) networks.push_back(std::move(network));
  }
  return networks;
}

/// Returns the network of a weight file. Reads all arrays except the arrays of the last layer, so that faults are found
/// before the pictures are converted. Errors: see network_of_weight_file and read_weight_file.
std::string network_in(const std::string& file) {
  const std::vector<Network> networks = networks_of_torch();
  const std::string name = network_of_weight_file(file, networks);
  const Network& network = *std::ranges::find(networks, name, &Network::name);
  const Graph graph = build_network(network, {1, Arithmetic::fp32, Purpose::training}).graph;
  read_weight_file(file, network, graph.parameters(), graph.buffers(), {last_layer(graph.parameters()) + "/*"});
  return name;
}

}  // namespace

GivenNetwork network_of_weights(const std::string& from, const std::optional<std::string>& model) {
  std::string network, preprocessing;
  if (is_onnx_file(from)) {
    network = std::filesystem::absolute(from).string();
    onnx_network(network);  // reads the network now, so that faults are found before the pictures are converted
  } else if (is_weight_file(from)) {
    network = network_in(from);
  } else {
    const LoadedCheckpoint loaded = find_checkpoint(from, print_warning);
    network = loaded.state.model;
    preprocessing = preprocessing_of(loaded);
    const std::vector<std::string> names = network_names(image_program());
    if (std::ranges::find(names, network) == names.end()) {
      fail(ExitCode::usage, "--from {}: {} is no network for pictures", from, network);
    }
  }
  if (model && *model != network) {
    fail(ExitCode::usage, "--model {}: the weights of --from {} are those of {}", *model, from, network);
  }
  return {network, preprocessing};
}

}  // namespace carillon
