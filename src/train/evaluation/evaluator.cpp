#include "src/train/evaluation/evaluator.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "src/data/loading/batch_loader.h"
#include "src/step/tensor_io.h"
#include "src/train/evaluation/image_views.h"

namespace carillon {
namespace {

/// `kind`: what the arrays are, for the message.
void check_finite(const std::vector<NamedArray>& arrays, std::string_view kind, const std::filesystem::path& path) {
  if (const NamedArray* array = find_not_finite(arrays)) {
    fail(ExitCode::data, "{}: its {} '{}' is not finite", path.string(), kind, array->name);
  }
}

}  // namespace

Evaluator::Evaluator(const Network& network, const EvaluatorSettings& settings, Device& device)
    : device_(device),
      image_(network.image),
      augments_(settings.test_time_augmentation),
      decode_threads_(settings.decode_threads),
      prefetch_bytes_(settings.prefetch_bytes),
      network_(build_network(network, {settings.batch_size, settings.arithmetic, Purpose::evaluation, device.kind()})),
      input_stage_(make_input_stage(
          device, {.batch_size = static_cast<std::size_t>(settings.batch_size), .image_bytes = network.image.bytes()})),
      parameters_(network_.graph.parameters(), device, {}),
      buffers_(network_.graph.buffers(), device),
      executable_(network_.graph, {device, parameters_, buffers_, input_stage_->inputs()}, false, {network_.output}) {}

void Evaluator::load(const LoadedCheckpoint& checkpoint, TrainedValues values) {
  const bool averages = values == TrainedValues::moving_averages;
  const std::vector<NamedArray>& arrays = averages ? checkpoint.state.moving_averages : checkpoint.state.variables;
  check_finite(arrays, averages ? "moving average" : "variable", checkpoint.path);
  check_finite(checkpoint.state.buffers, "state", checkpoint.path);
  upload(arrays, variables_of(parameters_), device_, checkpoint.path);
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
}

void Evaluator::broadcast_from_first(const Mpi& mpi) {
  for (const std::span<float> values : {parameters_.values(), buffers_.values()}) {
    std::vector<float> host(values.size());
    device_.download(values.data(), host.data(), values.size_bytes());
    mpi.broadcast(std::as_writable_bytes(std::span(host)), 0);
    device_.upload(host.data(), values.data(), values.size_bytes());
  }
}

void Evaluator::load_averages(std::span<float> averages, const BufferStore& buffers) {
  copy_floats(device_, averages, parameters_.values());
  copy_floats(device_, buffers.values(), buffers_.values());
}

std::vector<float> Evaluator::outputs_of(const Batch& batch) {
  input_stage_->write(0, {.batch = batch});
  input_stage_->upload(0, 1, device_.stream());
  executable_.forward(device_.stream());
  return download_floats(device_, executable_.tensor(network_.output));
}

std::vector<float> Evaluator::mean_outputs_of_views(const Batch& batch) {
  const std::size_t count = batch.images.size(), bytes = image_.bytes();
  std::vector<std::uint8_t> memory(count * bytes);
  std::vector<const std::uint8_t*> images;
  for (std::size_t i = 0; i < count; ++i) images.push_back(memory.data() + i * bytes);
  Batch seen = batch;
  seen.images = images;
  std::vector<float> means;
  for (const ImageView& view : augmented_views) {
    for (std::size_t i = 0; i < count; ++i) write_view(view, image_, batch.images[i], memory.data() + i * bytes);
    const std::vector<float> outputs = outputs_of(seen);
    means.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) means[i] += view.weight * outputs[i];
  }
  return means;
}

std::vector<float> Evaluator::outputs(const Batch& batch) {
  return augments_ ? mean_outputs_of_views(batch) : outputs_of(batch);
}

void Evaluator::add(Metric& metric, const Batch& batch) {
  const std::vector<float> values = outputs(batch);
  const std::size_t elements = values.size() / batch.images.size(), samples = batch.valid_count();
  for (std::size_t i = 0; i < samples; ++i) {
    const float* row = values.data() + i * elements;
    if (!std::all_of(row, row + elements, [](float value) { return std::isfinite(value); })) {
      fail(ExitCode::failed, "evaluation: the network's output is not finite for record {}", batch.records[i]);
    }
  }
  metric.add(std::span(values).first(samples * elements), batch.targets_of(0, samples));
}

void Evaluator::add_part(Metric& metric, const Dataset& dataset, const Mpi& mpi,
                         const std::function<void()>& batch_done) {
  const std::uint64_t begin = dataset.size() * mpi.rank() / mpi.size();
  const std::uint64_t end = dataset.size() * (mpi.rank() + 1) / mpi.size();
  const std::size_t batch_size = static_cast<std::size_t>(network_.graph.batch_size());
  BatchLoader loader(dataset, SampleOrder(dataset.size(), 0, false),
                     {.start = begin, .global_batch = batch_size, .batch_size = batch_size, .end = end},
                     {.thread_count = decode_threads_, .bytes = prefetch_bytes_});
  while (loader.has_next()) {
    add(metric, loader.next());
    batch_done();
  }
}

std::unique_ptr<Metric> Evaluator::evaluate(const MakeMetric& make_metric, const Dataset& dataset, const Mpi& mpi,
                                            const std::function<void()>& batch_done) {
  std::string part;
  mpi.run_on_all([&] {
    const std::unique_ptr<Metric> metric = make_metric();
    add_part(*metric, dataset, mpi, batch_done);
    part = metric->contents();
  });
  std::unique_ptr<Metric> all = make_metric();
  for (const std::string& contents : mpi.all_gather(part)) all->merge(contents);
  return all;
}

}  // namespace carillon
