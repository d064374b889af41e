#include "carillon/data/batch_loader.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// Both sources must behave alike: the set in memory, and decoded ahead.
class BatchLoaderTest : public ScratchTest, public testing::WithParamInterface<CacheMode> {
 protected:
  Dataset dataset(int count) const {
    const std::vector<std::string> paths = {write("set", mnist_records(count))};
    return Dataset::open(paths, mnist_schema, GetParam());
  }

  /// The records (known by their shade) of the first `steps` batches, checking all else of each batch.
  static std::vector<int> records(const Dataset& set, const StreamSlice& slice, int steps, bool shuffle = false) {
    BatchLoader loader(set, SampleOrder(set.size(), 3, shuffle), slice);
    std::vector<int> shades;
    for (int step = 0; step < steps; ++step) {
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.first_position, slice.start + step * slice.global_batch + slice.tower_offset);
      EXPECT_EQ(batch.images.size(), slice.batch_size);
      EXPECT_EQ(batch.labels.size(), slice.batch_size);
      for (std::size_t i = 0; i < slice.batch_size; ++i) {
        shades.push_back(batch.images[i][0]);
        EXPECT_EQ(batch.images[i][783], batch.images[i][0]);
        EXPECT_EQ(batch.labels[i], batch.images[i][0] % 10);
      }
    }
    return shades;
  }
};
INSTANTIATE_TEST_SUITE_P(Sources, BatchLoaderTest, testing::Values(CacheMode::memory, CacheMode::none),
                         [](const auto& source) { return source.param == CacheMode::memory ? "Memory" : "Prefetch"; });

TEST_P(BatchLoaderTest, OneTowerTakesTheStreamInOrder) {
  const StreamSlice slice{.start = 0, .global_batch = 3, .tower_offset = 0, .batch_size = 3};
  EXPECT_EQ(records(dataset(10), slice, 4), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
}

TEST_P(BatchLoaderTest, ATowerTakesItsPartOfEachGlobalBatch) {
  const StreamSlice slice{.start = 100, .global_batch = 6, .tower_offset = 2, .batch_size = 2};
  EXPECT_EQ(records(dataset(100), slice, 3), (std::vector<int>{2, 3, 8, 9, 14, 15}));
}

TEST_P(BatchLoaderTest, TowersTogetherSeeWhatOneTowerSees) {
  const Dataset set = dataset(50);
  const auto whole = records(set, {.start = 0, .global_batch = 8, .tower_offset = 0, .batch_size = 8}, 20, true);
  const auto low = records(set, {.start = 0, .global_batch = 8, .tower_offset = 0, .batch_size = 4}, 20, true);
  const auto high = records(set, {.start = 0, .global_batch = 8, .tower_offset = 4, .batch_size = 4}, 20, true);
  std::vector<int> together;
  for (std::size_t step = 0; step < 20; ++step) {
    together.insert(together.end(), low.begin() + 4 * step, low.begin() + 4 * step + 4);
    together.insert(together.end(), high.begin() + 4 * step, high.begin() + 4 * step + 4);
  }
  EXPECT_EQ(together, whole);
}

TEST_P(BatchLoaderTest, ALaterStartGoesOnAtTheExactNextSample) {
  const Dataset set = dataset(30);
  const auto whole = records(set, {.start = 0, .global_batch = 7, .tower_offset = 0, .batch_size = 7}, 20, true);
  const auto rest = records(set, {.start = 7 * 12, .global_batch = 7, .tower_offset = 0, .batch_size = 7}, 8, true);
  EXPECT_EQ(rest, std::vector<int>(whole.begin() + 7 * 12, whole.end()));
}

TEST_P(BatchLoaderTest, FewerRecordsThanABatchWrapAround) {
  const StreamSlice slice{.start = 0, .global_batch = 7, .tower_offset = 0, .batch_size = 7};
  EXPECT_EQ(records(dataset(3), slice, 2), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST_P(BatchLoaderTest, ALoaderEndsBeforeItsFirstBatchToo) {
  const Dataset set = dataset(3);
  for (int i = 0; i < 100; ++i)
    BatchLoader(set, SampleOrder(3, 1, true), {.start = 0, .global_batch = 2, .tower_offset = 0, .batch_size = 2});
}

TEST_P(BatchLoaderTest, ABatchOutsideTheGlobalBatchIsRefused) {
  const Dataset set = dataset(3);
  EXPECT_THROW(
      BatchLoader(set, SampleOrder(3, 1, true), {.start = 0, .global_batch = 4, .tower_offset = 2, .batch_size = 3}),
      Error);
}

using PrefetchTest = ScratchTest;

TEST_F(PrefetchTest, ADamagedRecordIsReportedAtItsBatchAndAfter) {
  std::string bytes = mnist_records(10);
  bytes[bytes.size() / 10 * 7 + 100] ^= 1;
  const std::vector<std::string> paths = {write("set", bytes)};
  const Dataset set = Dataset::open(paths, mnist_schema, CacheMode::none);
  BatchLoader loader(set, SampleOrder(10, 1, false),
                     {.start = 0, .global_batch = 2, .tower_offset = 0, .batch_size = 2});
  for (int step = 0; step < 3; ++step) EXPECT_EQ(loader.next().labels[1], 2 * step + 1);
  for (int again = 0; again < 2; ++again) {
    const Failure failure = failure_of([&] { loader.next(); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr("set: record 7 at byte"));
  }
}

TEST_F(PrefetchTest, ABatchStaysAsItIsUntilTheNextCall) {
  const std::vector<std::string> paths = {write("set", mnist_records(100))};
  const Dataset set = Dataset::open(paths, mnist_schema, CacheMode::none);
  BatchLoader loader(set, SampleOrder(100, 1, false),
                     {.start = 0, .global_batch = 4, .tower_offset = 0, .batch_size = 4});
  for (int step = 0; step < 20; ++step) {
    const Batch& batch = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time enough to be overwritten
    for (int i = 0; i < 4; ++i) ASSERT_EQ(batch.images[i][500], 4 * step + i);
  }
}

}  // namespace
}  // namespace carillon
