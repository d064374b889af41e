#include "src/train/loop/training_setup.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/shared/block_kernel.h"
#include "src/core/resources.h"
#include "src/core/text.h"
#include "src/graph/memory_plan.h"

namespace carillon {

std::size_t activation_bytes(const BuiltNetwork& built, const Device& device, std::int64_t at_once) {
  const bool trains = built.loss.index >= 0;
  const Value results[] = {trains ? built.loss : built.output};
  const std::vector<TiledSection> sections =
      plan_tiling(built.graph, at_once > 0 ? 1 : static_cast<int>(device.workers().size()),
                  device.min_samples(built.graph.arithmetic()));
  return plan_memory(tensor_lifetimes(built.graph, sections, trains, results)).peak_bytes *
         static_cast<std::size_t>(std::max<std::int64_t>(at_once, 1));
}

void check_batch_fits(const BuiltNetwork& built, const Device& device, int ranks, const BatchInMemory& batch) {
  if (device.kind() != DeviceKind::cpu) return;
  const std::size_t bytes = activation_bytes(built, device, batch.at_once);
  constexpr double bytes_per_gib = 1 << 30;
  const double wanted = static_cast<double>(bytes) / bytes_per_gib;
  const double there = static_cast<double>(total_memory_bytes()) / bytes_per_gib;
  if (wanted * ranks <= there) return;
  fail(ExitCode::usage, "{}: needs {:.1f} GiB of memory per rank, and this host has {:.1f} GiB for {}: reduce it",
       batch.option, wanted, there, count_text(ranks, "rank"));
}

namespace {

/// A GPU needs less time per record in larger batches. The number of pixels in a batch is limited, because the memory
/// of the activations grows with it.
std::int64_t evaluation_batch(const TrainOptions& options, const Network& network, DeviceKind device) {
  constexpr std::int64_t most = 1000, most_pixel_bytes = most * 32 * 32 * 3;
  const std::int64_t usual = options.data.evaluation_batch;
  if (device == DeviceKind::cpu) return usual;
  const auto image_bytes = static_cast<std::int64_t>(network.image.bytes());
  const std::int64_t useful =
      std::max(usual, std::min(most, most_pixel_bytes / std::max<std::int64_t>(image_bytes, 1)));
  const std::int64_t possible = most_gpu_elements / largest_evaluated_tensor(network, options.device.arithmetic);
  return std::clamp<std::int64_t>(possible, 1, useful);
}

}  // namespace

TowerSettings tower_settings(const TrainOptions& options) {
  return {.batch_size = options.data.batch_size,
          .micro_batch = options.data.micro_batch,
          .arithmetic = options.device.arithmetic,
          .optimizer = options.optimizer.settings(),
          .bucket_bytes = static_cast<std::size_t>(options.device.bucket_kib) * 1024,
          .wire = options.device.wire,
          .capture = options.device.cuda_graph};
}

std::int64_t largest_evaluated_tensor(const Network& network, Arithmetic arithmetic) {
  const BuiltNetwork built = build_network(network, {1, arithmetic, Purpose::evaluation, DeviceKind::cuda});
  std::int64_t most = 1;
  for (const auto& value : built.graph.values()) most = std::max(most, value.shape.elements_per_sample());
  return most;
}

void check_gpu_can_index(const Network& network, Arithmetic arithmetic, const std::string& subject) {
  check_index_limit(subject, largest_evaluated_tensor(network, arithmetic), most_gpu_elements);
}

EvaluatorSettings evaluator_settings(const TrainOptions& options, const Network& network, DeviceKind device,
                                     const EvaluatedPart& part, int decode_threads) {
  const DataOptions& data = options.data;
  return {.batch_size = evaluation_batch(options, network, device),
          .arithmetic = options.device.arithmetic,
          .test_time_augmentation = data.test_time_augmentation,
          .decode_threads = decode_threads,
          .prefetch_bytes = static_cast<std::size_t>(data.prefetch_bytes),
          .capture = options.device.cuda_graph,
          .repeated = part};
}

Network network_to_train(const TrainOptions& options, const FoundRecords& found) {
  return network_for_images(options, options.data.record_form.schema.image_shape, found);
}

Network network_for_images(const TrainOptions& options, const ImageShape& image, const FoundRecords& found) {
  const DataOptions& data = options.data;
  const std::uint64_t seed = options.model.seed;
  Network made = options.model.make({.image = image,
                                     .density = found.density,
                                     .outputs = options.task.value.outputs,
                                     .pixel_scale = static_cast<float>(data.pixel_scale),
                                     .regularization = static_cast<float>(options.optimizer.regularization),
                                     .distort = data.distort && !data.record_form.decoder_distorts,
                                     .normalization = data.normalization,
                                     .drop_path = static_cast<float>(options.model.drop_path),
                                     .record_count = found.record_count,
                                     .seed = seed});
  made.warp = {.rotation = data.rotate, .zoom = data.zoom, .shift = data.shift, .seed = seed};
  made.mixing = {.mixup = data.mixup, .cutmix = data.cutmix, .seed = seed};
  made.sync_batch_norm = options.model.sync_batch_norm;
  made.freeze_batch_norm = options.model.freeze_batch_norm;
  made.frozen_variables = options.optimizer.freeze;
  made.l2_exclude = options.optimizer.update.decay_exclude;
  return made;
}

}  // namespace carillon
