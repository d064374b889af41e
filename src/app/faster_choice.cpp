#include "src/app/faster_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

/// None: the network does not support the image size.
std::optional<double> work_of(const TrainOptions& options) {
  try {
    const BuiltNetwork built =
        build_network(network_to_train(options), {.batch_size = 1, .purpose = Purpose::evaluation});
    return static_cast<double>(multiply_adds(built.graph));
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return std::nullopt;
  }
}

}  // namespace

std::string faster_choice(const ProgramSpec& program_spec, const TrainOptions& options, bool evaluates_other_size) {
  if (program_spec.fast_network.empty() || is_synthetic(options.data.files)) return {};
  constexpr double least_gain = 1.5;
  const std::string fewer_steps = "fewer steps (--epochs, --max-steps)";
  TrainOptions fast = options;
  fast.model.make = network_named(program_spec, program_spec.fast_network);
  fast.model.sync_batch_norm = fast.model.freeze_batch_norm = false;
  ImageShape& image = fast.data.record_form.schema.image_shape;
  const bool smaller = program_spec.fast_image_size > 0 && image.height > program_spec.fast_image_size;
  if (smaller) image.height = image.width = program_spec.fast_image_size;
  const std::optional<double> work = work_of(fast);
  const double gain = work ? work_of(options).value() / *work : 0.0;
  if (gain < least_gain) return fewer_steps;
  std::string words;
  if (options.model.name != program_spec.fast_network) words += fmt::format("--model {} ", program_spec.fast_network);
  if (smaller) words += fmt::format("--image-size {} ", program_spec.fast_image_size);
  if (evaluates_other_size && !words.empty()) words += "--eval-image-size 0 ";
  return fmt::format("{}({:.0f} times less work per image), or {}", words, gain, fewer_steps);
}

}  // namespace carillon
