#include "src/app/evaluation_images.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

ImageShape evaluated_shape(const RecordForm& form) { return form.decoder({}, RecordUse::evaluation)->image_shape(); }

/// What a message is about.
std::string subject(const std::string& size, const ImageShape& image) {
  return size.empty() ? fmt::format("evaluated images of {} x {} pixels", image.height, image.width) : size;
}

}  // namespace

void check_same_variables(const Network& trained, const Network& evaluated) {
  const Graph training = build_network(trained, {1, Arithmetic::fp32, Purpose::training}).graph;
  const Graph evaluation = build_network(evaluated, {1, Arithmetic::fp32, Purpose::evaluation}).graph;
  const auto equal = [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right,
                              [](const auto& a, const auto& b) { return a.name == b.name && a.shape == b.shape; });
  };
  if (equal(training.parameters(), evaluation.parameters()) && equal(training.buffers(), evaluation.buffers())) return;
  fail(ExitCode::usage, "the variables of {} depend on the image size", trained.name);
}

void check_evaluation_images(const TrainOptions& options, const std::string& size) {
  const RecordForm& form = options.data.record_form;
  const ImageShape image = evaluated_shape(form);
  if (image == form.schema.image_shape) return;
  try {
    check_same_variables(network_to_train(options), network_for_images(options, image));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}{}", subject(size, image), error.what(), size.empty() ? "" : ": omit --eval-image-size");
  }
}

void check_evaluation_fits(const TrainOptions& options, const std::string& size, const Device& device,
                           int local_ranks) {
  const ImageShape image = evaluated_shape(options.data.record_form);
  const Network network = network_for_images(options, image);
  const BuildSettings build{options.data.evaluation_batch, options.device.arithmetic, Purpose::evaluation};
  check_batch_fits(build_network(network, build), device, local_ranks,
                   {.option = fmt::format("{}, {} at a time", subject(size, image), build.batch_size)});
}

}  // namespace carillon
