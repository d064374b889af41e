#include "carillon/run/evaluator.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "data/example.pb.h"
#include "src/device/cpu_device.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

constexpr int record_count = 29, batch_size = 4, predicted = 9;

/// The MNIST network with all weights 0 and one bias 1: it takes every image for a `predicted`.
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

/// Every second record is labelled `predicted`, the first and the last too.
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

Precision evaluate(const std::string& bytes, CacheMode cache) {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("evaluator.{}", ::getpid())).string();
  std::ofstream(path, std::ios::binary) << bytes;
  const RecordSchema schema{
      .keys = {.image = "image_raw", .label = "label"}, .image_shape = {28, 28, 1}, .class_count = 10};
  const Dataset dataset = Dataset::open(std::vector{path}, make_grey_decoder(schema), cache);
  std::filesystem::remove(path);
  CpuDevice device(1);
  Evaluator evaluator(mnist_network(mnist_images()), batch_size, Arithmetic::fp32, device);
  evaluator.load(constant_network(), TrainedValues::variables);
  return evaluator.evaluate(dataset, mpi_world());
}

TEST(Evaluator, EveryRecordCountsOnceAtAnyNumberOfRanks) {
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Precision precision = evaluate(records(), cache);
    EXPECT_EQ(precision.total, record_count);
    EXPECT_EQ(precision.correct, (record_count + 1) / 2);
  }
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
    EXPECT_THAT(error.what(), HasSubstr("record 28 at byte"));
  }
}

}  // namespace
}  // namespace carillon::testing
