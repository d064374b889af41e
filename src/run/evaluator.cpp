#include "carillon/run/evaluator.h"

#include <algorithm>
#include <array>

#include "carillon/core/error.h"
#include "carillon/step/tower.h"

namespace carillon {
namespace {

/// Pointers to and labels of up to `batch` records from `first`; the last one is repeated to fill the batch.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, std::size_t batch)
      : dataset_(dataset),
        images_(batch),
        labels_(batch),
        pixels_(dataset.in_memory() ? 0 : batch * dataset.image_bytes()) {}

  Batch read(std::size_t first, std::size_t valid) {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const std::size_t record = first + std::min(i, valid - 1);
      if (dataset_.in_memory()) {
        images_[i] = dataset_.image(record);
        labels_[i] = dataset_.label(record);
      } else {
        const std::span<std::uint8_t> slot{pixels_.data() + i * dataset_.image_bytes(), dataset_.image_bytes()};
        labels_[i] = dataset_.read(record, slot);
        images_[i] = slot.data();
      }
    }
    return {images_, labels_, {}, first};
  }

 private:
  const Dataset& dataset_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

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
      feed_(make_batch_feed(device, static_cast<std::size_t>(graph_.batch_size()), model.schema.image_bytes)),
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

std::int64_t Evaluator::count_correct(const Batch& batch, std::size_t valid) {
  feed_->set(executable_.inputs(), batch);
  executable_.forward(device_.stream());
  const Tensor& logits = executable_.tensor(logits_);
  const std::vector<float> values = download_floats(device_, logits);
  const std::size_t classes = static_cast<std::size_t>(logits.shape[1]);
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < valid; ++i) {
    const float* row = values.data() + i * classes;
    const auto best = std::max_element(row, row + classes) - row;
    correct += best == batch.labels[i] ? 1 : 0;
  }
  return correct;
}

Precision Evaluator::evaluate(const Dataset& dataset, const Mpi& mpi) {
  const std::size_t begin = dataset.size() * mpi.rank() / mpi.size();
  const std::size_t end = dataset.size() * (mpi.rank() + 1) / mpi.size();
  const std::size_t batch_size = static_cast<std::size_t>(graph_.batch_size());
  BatchReader reader(dataset, batch_size);
  std::array<std::int64_t, 2> counts{0, static_cast<std::int64_t>(end - begin)};
  mpi.run_on_all([&] {
    for (std::size_t first = begin; first < end; first += batch_size) {
      const std::size_t valid = std::min(batch_size, end - first);
      counts[0] += count_correct(reader.read(first, valid), valid);
    }
  });
  mpi.sum(counts);
  return {counts[0], counts[1]};
}

}  // namespace carillon
