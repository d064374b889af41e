#include "tests/gpu/towers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "data/records/example.pb.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

std::vector<float> downloaded(std::span<const float> values, Device& device) {
  std::vector<float> copy(values.size());
  device.download(values.data(), copy.data(), values.size_bytes());
  return copy;
}

/// One tower's samples of one step. The destructor overwrites the samples, so that a tower that reads them later gets
/// wrong results.
class PassingBatch {
 public:
  PassingBatch(const Dataset& dataset, std::uint64_t first, std::size_t count) : first_(first) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto record = static_cast<std::uint32_t>((first + i) * 31 % dataset.size());
      records_.push_back(record);
      std::ranges::copy(dataset.target(record), std::back_inserter(targets_));
      pixels_.emplace_back(dataset.image(record), dataset.image(record) + dataset.image_bytes());
      images_.push_back(pixels_.back().data());
    }
  }
  ~PassingBatch() {
    for (auto& image : pixels_) std::fill(image.begin(), image.end(), std::uint8_t{0});
    std::ranges::fill(targets_, std::byte{0});
    std::fill(records_.begin(), records_.end(), 0u);
  }
  Batch batch() const { return {images_, targets_, records_, first_}; }
  Batch records_alone() const { return {{}, {}, records_, first_}; }

 private:
  std::uint64_t first_;
  std::vector<std::vector<std::uint8_t>> pixels_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::byte> targets_;
  std::vector<std::uint32_t> records_;
};

}  // namespace

Network small_network() {
  return make_network("small", {.image = {28, 28, 1}}, [](Graph& graph) {
    const Initializer weights{Initializer::Kind::truncated_normal, 0.1f};
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = 1.0f / 255.0f});
    x = dense(graph, "layer1", x, {.units = 20, .weights = weights, .l2_factor = 1e-4f});
    x = relu(graph, "layer1/relu", x);
    return dense(graph, "layer2", x, {.units = 10, .weights = weights, .l2_factor = 1e-4f});
  });
}

NoiseRecords::NoiseRecords(std::size_t count, std::size_t image_bytes, CacheMode cache) {
  const NoiseBatch noise(1000, count, image_bytes);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["image_raw"].mutable_bytes_list()->add_value(noise.batch().images[i], image_bytes);
    features["label"].mutable_int64_list()->add_value(noise.labels()[i]);
    append_record(bytes, example.SerializeAsString());
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("carillon.noise.{}.tfrecords", ::getpid())).string();
  std::ofstream(path, std::ios::binary) << bytes;
  RecordSchema schema{.keys = {.image = "image_raw", .label = "label"}, .image_shape = {}, .class_count = 10};
  schema.image_shape = {1, static_cast<std::int64_t>(image_bytes), 1};
  dataset_ = std::make_unique<Dataset>(Dataset::open(std::vector{path}, grey_records(std::move(schema)), cache));
  std::filesystem::remove(path);
}

namespace {

/// Expects that each compute copy (the copy of a variable that matrix products read) has the bits that the conversion
/// of its variable gives.
void expect_compute_copies_hold(const ParameterStore& parameters, Device& device) {
  for (std::size_t i = 0; i < parameters.compute_copies().size(); ++i) {
    const ComputeCopy& compute_copy = parameters.compute_copies()[i];
    if (!compute_copy.tensor) continue;
    const Tensor value = parameters.value(static_cast<int>(i));
    const std::vector<float> values = downloaded(value.floats(), device);
    const std::size_t columns = static_cast<std::size_t>(value.shape.extents().back());
    const std::size_t rows = static_cast<std::size_t>(compute_copy.tensor.shape.element_count()) / columns;
    std::vector<std::byte> found(compute_copy.tensor.bytes());
    device.download(compute_copy.tensor.data, found.data(), found.size());
    const auto padded = [&](std::size_t row) { return compute_copy.padding.place(static_cast<std::uint32_t>(row)); };
    std::size_t wrong = 0;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const bool filter_major = compute_copy.form == ComputeCopyFormat::filter_major;
      const std::size_t place = filter_major ? e % columns * rows + padded(e / columns) : e;
      if (compute_copy.tensor.type == DType::bf16) {
        const Bf16 wanted = to_bf16(values[e]);
        wrong += std::memcmp(found.data() + place * sizeof(Bf16), &wanted, sizeof(Bf16)) != 0;
      } else {
        wrong += std::memcmp(found.data() + place * sizeof(float), &values[e], sizeof(float)) != 0;
      }
    }
    EXPECT_EQ(wrong, 0u) << "elements of the compute copy of " << parameters.specs()[i].name;
  }
}

/// Saves `tower`, destroys it, and returns a new tower with its state.
template <typename MakeTower>
std::unique_ptr<Tower> continued(std::unique_ptr<Tower> tower, const MakeTower& make_tower) {
  LoadedCheckpoint checkpoint;
  tower->save(checkpoint.state);
  tower.reset();
  tower = make_tower();
  tower->restore(checkpoint);
  tower->broadcast_from_first();
  return tower;
}

}  // namespace

Trained train(const Training& training, const NoiseRecords& records, Device& device, Communicator& communicator) {
  const auto rate = [&](std::int64_t step) -> double {
    return step == training.explode_at ? std::numeric_limits<float>::max() : training.learning_rate;
  };
  const TowerSettings settings{.batch_size = training.batch_size,
                               .micro_batch = training.micro_batch,
                               .arithmetic = training.arithmetic,
                               .optimizer = {.rule = training.rule,
                                             .learning_rate = Schedule(rate),
                                             .moving_average_decay = training.averages ? 0.9 : 0.0,
                                             .muon_normalizes = training.muon_normalizes,
                                             .weight_decay = training.weight_decay,
                                             .clip_norm = training.clip_norm,
                                             .groups = training.groups,
                                             .lookahead = training.lookahead},
                               .bucket_bytes = training.bucket_bytes,
                               .dataset = training.resident,
                               .capture = training.capture};
  const auto make_tower = [&] {
    return std::make_unique<Tower>(training.network, task_of(training.network), settings, device, communicator);
  };
  auto tower = make_tower();
  if (communicator.rank() == 0) tower->initialize(1);
  tower->broadcast_from_first();
  Trained trained;
  const auto batch_size = static_cast<std::uint64_t>(training.batch_size);
  const auto take_results = [&](Results wanted) {
    while (const auto result = tower->next_result(wanted)) trained.results.push_back(*result);
  };
  for (int step = 0; step < training.steps; ++step) {
    if (step == training.restored_at) {
      take_results(Results::all);
      tower = continued(std::move(tower), make_tower);
    }
    const std::uint64_t towers = static_cast<std::uint64_t>(communicator.size());
    const std::uint64_t position = (step * towers + static_cast<std::uint64_t>(communicator.rank())) * batch_size;
    const PassingBatch samples(records.dataset(), position, batch_size);
    StepRequest request{.step = step,
                        .batch = tower->keeps_records() ? samples.records_alone() : samples.batch(),
                        .request_sync = step == training.sync_at};
    request.reports_l2 = training.l2_every > 0 && step % training.l2_every == 0;
    if (training.observe_every > 0 && step % training.observe_every == 0) {
      request.before_update = [&] {
        trained.observed.push_back(downloaded(tower->parameters().gradients_and_sums(), device));
      };
    }
    tower->step(request);
    if (step % training.results_every != 0) continue;
    take_results(Results::due);
  }
  take_results(Results::all);
  trained.captured_nodes = tower->captured_nodes();
  trained.keeps_records = tower->keeps_records();
  expect_compute_copies_hold(tower->parameters(), device);
  trained.values = downloaded(tower->parameters().values(), device);
  trained.buffers = downloaded(tower->buffers().values(), device);
  if (training.averages) trained.averages = downloaded(tower->parameters().slot(0), device);
  return trained;
}

void expect_equal(const Trained& a, const Trained& b) {
  EXPECT_TRUE(equal_bits(a.values, b.values));
  EXPECT_TRUE(equal_bits(a.averages, b.averages));
  EXPECT_TRUE(equal_bits(a.buffers, b.buffers));
  ASSERT_EQ(a.results.size(), b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    EXPECT_EQ(a.results[i].step, b.results[i].step);
    EXPECT_EQ(a.results[i].loss, b.results[i].loss) << "step " << i;
    EXPECT_EQ(a.results[i].l2_loss, b.results[i].l2_loss) << "step " << i;
    EXPECT_EQ(a.results[i].gradient_norm, b.results[i].gradient_norm) << "step " << i;
    EXPECT_EQ(a.results[i].sync_requested, b.results[i].sync_requested) << "step " << i;
  }
}

}  // namespace carillon::testing
