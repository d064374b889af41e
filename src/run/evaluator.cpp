#include "carillon/run/evaluator.h"

#include <algorithm>
#include <array>

#include "carillon/core/error.h"
#include "carillon/data/batch_loader.h"
#include "carillon/step/tower.h"

namespace carillon {
std::string Precision::text() const { return fmt::format("precision @ 1 = {:.3f} ({}/{})", value(), correct, total); }

Evaluator::Network Evaluator::build(const Model& model, const ModelSettings& settings, std::int64_t batch_size,
                                    DType activations) {
  Graph graph(batch_size, activations);
  const Value logits = model.build(graph, settings);
  return {std::move(graph), logits};
}

Evaluator::Evaluator(const Model& model, const ModelSettings& settings, std::int64_t batch_size, Device& device)
    : Evaluator(build(model, settings, batch_size, device.activation_type()), model, device) {}

Evaluator::Evaluator(Network network, const Model& model, Device& device)
    : device_(device),
      graph_(std::move(network.graph)),
      logits_(network.logits),
      feed_(make_batch_feed(device, static_cast<std::size_t>(graph_.batch_size()), model.schema.image_shape.bytes())),
      parameters_(graph_.parameters(), device, Buffer{}),
      executable_(graph_, device, parameters_, false, {logits_}, feed_->inputs()) {}

void Evaluator::load(const LoadedCheckpoint& checkpoint, bool averages) {
  load_arrays(averages ? checkpoint.state.moving_averages : checkpoint.state.variables, parameters_, device_,
              StoreArray::values, checkpoint.path);
}

void Evaluator::broadcast_from_first(const Mpi& mpi) {
  const std::span<float> values = parameters_.values();
  std::vector<float> host(values.size());
  device_.download(values.data(), host.data(), values.size_bytes());
  mpi.broadcast(std::as_writable_bytes(std::span(host)), 0);
  device_.upload(host.data(), values.data(), values.size_bytes());
}

void Evaluator::load_averages(const ParameterStore& trained) {
  const std::span<float> averages = trained.averages();
  std::vector<float> host(averages.size());
  device_.download(averages.data(), host.data(), averages.size_bytes());
  device_.upload(host.data(), parameters_.values().data(), averages.size_bytes());
}

std::int64_t Evaluator::count_correct(const Batch& batch) {
  feed_->set(executable_.inputs(), batch);
  executable_.forward(device_.stream());
  const Tensor& logits = executable_.tensor(logits_);
  const std::vector<float> values = download_floats(device_, logits);
  const std::size_t classes = static_cast<std::size_t>(logits.shape[1]);
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < batch.valid_count(); ++i) {
    const float* row = values.data() + i * classes;
    const auto best = std::max_element(row, row + classes) - row;
    correct += best == batch.labels[i] ? 1 : 0;
  }
  return correct;
}

Precision Evaluator::evaluate(const Dataset& dataset, const Mpi& mpi) {
  const std::uint64_t begin = dataset.size() * mpi.rank() / mpi.size();
  const std::uint64_t end = dataset.size() * (mpi.rank() + 1) / mpi.size();
  const std::size_t batch_size = static_cast<std::size_t>(graph_.batch_size());
  std::array<std::int64_t, 2> counts{0, static_cast<std::int64_t>(end - begin)};
  mpi.together([&] {
    BatchLoader loader(dataset, SampleOrder(dataset.size(), 0, false),
                       {.start = begin, .global_batch = batch_size, .batch_size = batch_size, .end = end});
    while (loader.has_next()) counts[0] += count_correct(loader.next());
  });
  mpi.sum(counts);
  return {counts[0], counts[1]};
}

}  // namespace carillon
