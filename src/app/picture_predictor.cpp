#include "src/app/picture_predictor.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "src/app/saved_network.h"
#include "src/tasks/probabilities.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

const ProgramSpec& program_spec_of(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs) {
  const bool of_pictures = trained_pictures(loaded).has_value();
  const auto has_model = [&](const ProgramSpec& program_spec) {
    const std::vector<std::string> names = network_names(program_spec);
    return program_spec.of_pictures == of_pictures && std::ranges::count(names, loaded.state.model) > 0;
  };
  return *std::ranges::find_if(program_specs, has_model);  // network_of has checked that there is one
}

std::vector<std::string> class_names_of(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  const std::optional<PictureOptions> pictures = trained_pictures(loaded);
  std::vector<std::string> names = trained_class_names(loaded, program_spec);
  const std::int64_t count = pictures ? pictures->classes : program_spec.defaults.data.record_form.schema.class_count;
  for (auto i = static_cast<std::int64_t>(names.size()); i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

PictureDecoding decoding_of(const LoadedCheckpoint& loaded, const Network& network) {
  if (const std::optional<PictureOptions> pictures = trained_pictures(loaded)) return evaluation_decoding(*pictures);
  return {.shorter = std::max(network.image.height, network.image.width)};
}

/// The network, if a batch of pictures fits the memory. Errors: usage.
const Network& fitting(const Network& network, const PredictorSettings& settings, const Device& device) {
  const auto batch_size = static_cast<std::int64_t>(settings.batch_size);
  check_batch_fits(build_network(network, {batch_size, Arithmetic::fp32, Purpose::evaluation}), device, 1,
                   {.option = fmt::format("--batch-size {} of {} x {} pixels", batch_size, network.image.height,
                                          network.image.width)});
  return network;
}

}  // namespace

PicturePredictor::PicturePredictor(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs,
                                   const PredictorSettings& settings, Device& device)
    : network_(network_of(loaded, program_specs)),
      settings_(settings),
      decoding_(decoding_of(loaded, network_)),
      class_names_(class_names_of(loaded, program_spec_of(loaded, program_specs))),
      evaluator_(fitting(network_, settings, device),
                 {.batch_size = static_cast<std::int64_t>(settings.batch_size),
                  .test_time_augmentation = settings.test_time_augmentation},
                 device) {
  if (const std::optional<PictureOptions> pictures = trained_pictures(loaded)) {
    target_ = pictures->target();
    scales_ = pictures->scales;
    scales_.resize(class_names_.size());
  }
  evaluator_.load(loaded, settings.values);
}

void PicturePredictor::read_image(std::span<const std::uint8_t> file, std::span<std::uint8_t> image) const {
  thread_local ViewMemory memory;
  thread_local std::vector<std::uint8_t> planes;
  const ImageShape& shape = network_.image;
  PictureView view = central_view(picture_info(file), decoding_.shorter, shape.height, shape.width);
  view.background = decoding_.background;
  if (shape.channels == 3) return render_view(file, view, decoding_.resampling, memory, image);
  const std::size_t size = static_cast<std::size_t>(shape.height * shape.width);
  planes.resize(3 * size);
  render_view(file, view, decoding_.resampling, memory, planes);
  for (std::size_t i = 0; i < size; ++i) {  // luma of ITU-R BT.601
    image[i] =
        static_cast<std::uint8_t>((299 * planes[i] + 587 * planes[size + i] + 114 * planes[2 * size + i] + 500) / 1000);
  }
}

std::vector<double> PicturePredictor::prediction(std::span<const float> outputs) const {
  std::vector<double> values;
  if (target_ == TargetKind::class_index) {
    const Softmax softmax(outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) values.push_back(softmax.probability(i));
    return values;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values.push_back(target_ == TargetKind::labels ? label_probability(outputs[i]) : scales_[i].number(outputs[i]));
  }
  return values;
}

std::vector<std::vector<double>> PicturePredictor::predict(std::span<const std::uint8_t* const> images) {
  const std::size_t count = images.size(), batch_size = settings_.batch_size;
  check(count > 0 && count <= batch_size, "predict takes 1 to batch_size images");
  std::vector<const std::uint8_t*> padded(images.begin(), images.end());
  padded.resize(batch_size, images.back());
  const std::vector<float> logits = evaluator_.outputs({.images = padded, .padding = batch_size - count});
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const float> row = std::span(logits).subspan(i * class_count(), class_count());
    if (!std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); })) {
      fail(ExitCode::failed, "the output of the network is not finite");
    }
    all.push_back(prediction(row));
  }
  return all;
}

}  // namespace carillon
