#include "src/train/evaluation/evaluator.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "carillon/core/error.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "data/records/example.pb.h"
#include "src/device/cpu_device.h"
#include "src/step/tower.h"
#include "src/tasks/classification_metric.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/metrics.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

// 4 ranks cannot divide 31 records evenly: 3 records remain. If all ranks had the same number of records, some records
// would be omitted or counted twice.
constexpr int record_count = 31, batch_size = 4, predicted = 9;

/// Returns the MNIST network. All weights are 0 and one bias is 1, so that it classifies every image as `predicted`.
LoadedCheckpoint constant_network() {
  const auto array = [](const char* name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return NamedArray{name, std::move(shape), std::vector<float>(static_cast<std::size_t>(count))};
  };
  LoadedCheckpoint loaded{.path = "constant", .state = {}};
  loaded.state.variables = {array("layer1/weights", {784, 500}), array("layer1/biases", {500}),
                            array("layer2/weights", {500, 10}), array("layer2/biases", {10})};
  loaded.state.variables.back().values[predicted] = 1.0f;
  return loaded;
}

/// Returns records. Every second record has the label `predicted`, including the first and the last record.
std::string records() {
  std::string bytes;
  for (int i = 0; i < record_count; ++i) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["image_raw"].mutable_bytes_list()->add_value(std::string(784, static_cast<char>(i)));
    features["label"].mutable_int64_list()->add_value(i % 2 == 0 ? predicted : 3);
    append_record(bytes, example.SerializeAsString());
  }
  return bytes;
}

Dataset dataset_of(const std::string& bytes, CacheMode cache) {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("evaluator.{}", ::getpid())).string();
  std::ofstream(path, std::ios::binary) << bytes;
  const RecordSchema schema{
      .keys = {.image = "image_raw", .label = "label"}, .image_shape = {28, 28, 1}, .class_count = 10};
  Dataset dataset = Dataset::open(std::vector{path}, grey_records(schema), cache);
  std::filesystem::remove(path);
  return dataset;
}

Accuracy accuracy(Evaluator& evaluator, const Dataset& dataset) {
  const auto metric =
      evaluator.evaluate([] { return std::make_unique<ClassificationMetric>(10); }, dataset, mpi_world());
  return dynamic_cast<const ClassificationMetric&>(*metric).accuracy();
}

Accuracy evaluate(const std::string& bytes, CacheMode cache) {
  const Dataset dataset = dataset_of(bytes, cache);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  evaluator.load(constant_network(), TrainedValues::variables);
  return accuracy(evaluator, dataset);
}

TEST(Evaluator, EveryRecordCountsOnceAtAnyNumberOfRanks) {
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Accuracy found = evaluate(records(), cache);
    EXPECT_EQ(found.total, record_count);
    EXPECT_EQ(found.correct, (record_count + 1) / 2);
  }
}

/// In a sample of the first records, the labels would not have their shares: the records are often sorted by class.
TEST(Evaluator, ARandomSampleEndsEarlyAndIsNotThePrefix) {
  const Dataset dataset = dataset_of(records(), CacheMode::memory);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  evaluator.load(constant_network(), TrainedValues::variables);
  const auto sample = [&](std::uint64_t seed, bool is_over) {
    const auto metric = evaluator.evaluate([] { return std::make_unique<ClassificationMetric>(10); }, dataset,
                                           mpi_world(), [] {}, RandomSample{seed, [=] { return is_over; }});
    return dynamic_cast<const ClassificationMetric&>(*metric).accuracy();
  };
  const Accuracy whole = sample(1, false);
  EXPECT_EQ(whole.total, record_count);
  EXPECT_EQ(whole.correct, (record_count + 1) / 2);
  std::set<std::int64_t> correct;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Accuracy found = sample(seed, true);
    EXPECT_EQ(found.total, batch_size * mpi_world().size());
    correct.insert(found.correct);
  }
  EXPECT_GT(correct.size(), 1u) << "other seeds give other records";
}

TEST(Evaluator, CountsByClassesWhatAllRanksFind) {
  const Dataset dataset = dataset_of(records(), CacheMode::memory);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  evaluator.load(constant_network(), TrainedValues::variables);
  int batches = 0;
  const auto make = [] {
    return std::make_unique<ClassificationMetric>(10, ClassificationDetails{.has_confusion_matrix = true});
  };
  const auto metric = evaluator.evaluate(make, dataset, mpi_world(), [&] { ++batches; });
  const ConfusionMatrix& counts = dynamic_cast<const ClassificationMetric&>(*metric).confusion_matrix();
  EXPECT_GT(batches, 0);
  for (std::size_t label = 0; label < 10; ++label) {
    for (std::size_t taken_for = 0; taken_for < 10; ++taken_for) {
      std::int64_t expected = 0;
      if (taken_for == predicted && label == predicted) expected = (record_count + 1) / 2;
      if (taken_for == predicted && label == 3) expected = record_count / 2;
      EXPECT_EQ(counts.row(label)[taken_for], expected) << label << " taken for " << taken_for;
    }
  }
}

/// A metric that records the labels of its samples in the order in which `add` and `merge` add the samples.
class OrderMetric : public Metric {
 public:
  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    const std::size_t samples = targets.size() / sizeof(std::int32_t);
    EXPECT_EQ(outputs.size(), 10 * samples);
    for (std::size_t i = 0; i < samples; ++i) {
      std::int32_t label = 0;
      std::memcpy(&label, targets.data() + i * sizeof label, sizeof label);
      labels_ += static_cast<char>('0' + label);
    }
  }
  std::string contents() const override { return labels_; }
  void merge(std::string_view contents) override { labels_ += contents; }
  std::vector<Score> scores() const override { return {}; }
  std::string text() const override { return labels_; }

 private:
  std::string labels_;
};

TEST(Evaluator, MergesTheRanksMetricsInRankOrder) {
  const Dataset dataset = dataset_of(records(), CacheMode::memory);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  evaluator.load(constant_network(), TrainedValues::variables);
  const auto metric = evaluator.evaluate([] { return std::make_unique<OrderMetric>(); }, dataset, mpi_world());
  std::string expected;
  for (int i = 0; i < record_count; ++i) expected += i % 2 == 0 ? '9' : '3';
  EXPECT_EQ(metric->text(), expected);
}

TEST(Evaluator, FillsAMetricThatKnowsNoClasses) {
  const Dataset dataset = dataset_of(records(), CacheMode::none);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  LoadedCheckpoint loaded = constant_network();
  loaded.state.variables.back().values[0] = 6.0f;  // the first output is 6 for every record
  evaluator.load(loaded, TrainedValues::variables);
  const auto metric = evaluator.evaluate(error_task().make_metric, dataset, mpi_world());
  EXPECT_EQ(metric->scores().at(0).value, record_count);
  EXPECT_EQ(metric->scores().at(1).value, 3.0);  // the mean of |6 - 9| and |6 - 3|
}

TEST(Evaluator, ADamagedRecordIsSaidByTheRankThatReadsIt) {
  std::string bytes = records();
  bytes[bytes.size() / record_count * (record_count - 1) + 100] ^= 1;
  const bool reads_it = mpi_world().rank() == mpi_world().size() - 1;
  try {
    evaluate(bytes, CacheMode::none);
    ADD_FAILURE() << "no error";
  } catch (const PeerFailed&) {
    EXPECT_FALSE(reads_it);
  } catch (const Error& error) {
    EXPECT_TRUE(reads_it);
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("record {} at byte", record_count - 1)));
  }
}

TEST(Evaluator, RefusesACheckpointThatIsNotFiniteNamingTheArray) {
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    LoadedCheckpoint loaded = constant_network();
    loaded.state.moving_averages = loaded.state.variables;
    loaded.state.moving_averages[1].values[7] = value;
    EXPECT_NO_THROW(evaluator.load(loaded, TrainedValues::variables));
    const Error error = error_of([&] { evaluator.load(loaded, TrainedValues::moving_averages); });
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_STREQ(error.what(), "constant: its moving average 'layer1/biases' is not finite");
  }
}

TEST(Evaluator, CountsNothingWhereTheOutputIsNotFinite) {
  LoadedCheckpoint loaded = constant_network();
  std::ranges::fill(loaded.state.variables[1].values, 3e38f);
  std::ranges::fill(loaded.state.variables[2].values, 3e38f);
  const Dataset dataset = dataset_of(records(), CacheMode::memory);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size}, device);
  evaluator.load(loaded, TrainedValues::variables);
  try {
    accuracy(evaluator, dataset);
    ADD_FAILURE() << "an accuracy";
  } catch (const PeerFailed& peer) {
    EXPECT_EQ(peer.code(), ExitCode::failed);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), HasSubstr(": record 0: the network's output is not finite"));
  }
}

/// Trains the constant network for one step on black images, which change only the biases of the last layer. Then the
/// network classifies every image as `label`.
void step_towards(Tower& tower, std::int32_t label, std::int64_t step) {
  const std::vector<std::uint8_t> black(784);
  const std::vector<const std::uint8_t*> images(batch_size, black.data());
  const std::vector<std::int32_t> labels(batch_size, label);
  tower.step({.step = step, .batch = {images, std::as_bytes(std::span(labels)), {}, 0}});
}

TEST(Evaluator, ALateRankGetsTheAveragesOfTheStepThoughPeersAreInTheNext) {
  const Mpi& mpi = mpi_world();
  const Dataset dataset = dataset_of(records(), CacheMode::memory);
  CpuDevice device(1);
  const auto communicator = make_communicator(mpi, device);
  const Network network = mnist_network(mnist_images());
  const OptimizerSettings fast{.learning_rate = constant_rate(10.0), .moving_average_decay = 0.0};
  Tower tower(network, task_of(network), {.batch_size = batch_size, .optimizer = fast}, device, *communicator);
  if (mpi.rank() == 0) tower.initialize_from(constant_network());
  tower.broadcast_from_first();
  Evaluator evaluator(network, {.batch_size = batch_size}, device);
  constexpr std::int32_t of_no_record = 5;
  for (int late = 0; late < mpi.size(); ++late) {
    step_towards(tower, predicted, 2 * late);
    be_late(late);
    evaluator.load_averages(tower.moving_averages(), tower.buffers());
    step_towards(tower, of_no_record, 2 * late + 1);
    EXPECT_EQ(accuracy(evaluator, dataset).correct, (record_count + 1) / 2) << "rank " << late << " late";
    evaluator.load_averages(tower.moving_averages(), tower.buffers());
    EXPECT_EQ(accuracy(evaluator, dataset).correct, 0) << "after the next step";
  }
}

/// Returns a network with 10 outputs. Output i is proportional to the sum of the image's column 9 + i.
LoadedCheckpoint column_network() {
  LoadedCheckpoint loaded = constant_network();
  for (NamedArray& array : loaded.state.variables) std::ranges::fill(array.values, 0.0f);
  for (std::size_t unit = 0; unit < 10; ++unit) {
    for (std::size_t y = 0; y < 28; ++y) loaded.state.variables[0].values[(y * 28 + 9 + unit) * 500 + unit] = 1.0f;
    loaded.state.variables[2].values[unit * 10 + unit] = 1.0f;
  }
  return loaded;
}

/// All rows of the image are equal to `row`. Returns the class that column_network predicts from the weighted mean over
/// the views.
std::int32_t predicted_from_views(const std::vector<int>& row) {
  std::vector<double> means;
  for (std::size_t x = 9; x < 19; ++x) {
    means.push_back(0.25 * (row[x] + row[27 - x]) + 0.125 * (row[x - 1] + row[26 - x]) +
                    0.125 * (row[x + 1] + row[28 - x]));
  }
  return static_cast<std::int32_t>(std::ranges::max_element(means) - means.begin());
}

TEST(Evaluator, AugmentedItPredictsFromTheWeightedMeanOfTheViews) {
  constexpr int count = 101;
  std::string bytes;
  std::mt19937 random(1);
  for (int i = 0; i < count; ++i) {
    std::vector<int> row;
    std::string image;
    for (int x = 0; x < 28; ++x) row.push_back(static_cast<int>(random() % 256));
    for (int y = 0; y < 28; ++y) image.append(row.begin(), row.end());
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["image_raw"].mutable_bytes_list()->add_value(image);
    features["label"].mutable_int64_list()->add_value(predicted_from_views(row));
    append_record(bytes, example.SerializeAsString());
  }
  const Dataset dataset = dataset_of(bytes, CacheMode::memory);
  CpuDevice device(1);
  for (const bool augments : {false, true}) {
    Evaluator evaluator(mnist_network(mnist_images()), {.batch_size = batch_size, .test_time_augmentation = augments},
                        device);
    evaluator.load(column_network(), TrainedValues::variables);
    const Accuracy found = accuracy(evaluator, dataset);
    EXPECT_EQ(found.total, count);
    if (augments) {
      EXPECT_EQ(found.correct, count);
    } else {
      EXPECT_LT(found.correct, count / 2);
    }
  }
}

}  // namespace
}  // namespace carillon::testing
