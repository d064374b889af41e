#include "src/data/loading/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

/// The parameter is 0 for a dataset in memory. Otherwise it is the number of threads that decode ahead. The results
/// must be equal for all parameters.
class BatchLoaderTest : public ScratchTest, public testing::WithParamInterface<int> {
 protected:
  Dataset dataset(int count) const {
    const std::vector<std::string> paths = {write("set", mnist_records(count))};
    return Dataset::open(paths, mnist_decoder, GetParam() == 0 ? CacheMode::memory : CacheMode::none);
  }
  static PrefetchSettings prefetch() { return {.thread_count = std::max(GetParam(), 1)}; }

  /// Checks that each image of a batch has one shade and the label that belongs to it. Returns the shades, which
  /// identify the records.
  static std::vector<int> shades_of(const Batch& batch) {
    std::vector<int> shades;
    EXPECT_EQ(batch.targets.size(), batch.images.size() * sizeof(std::int32_t));
    EXPECT_EQ(batch.records.size(), batch.images.size());
    for (std::size_t i = 0; i < batch.images.size(); ++i) {
      shades.push_back(batch.images[i][0]);
      EXPECT_EQ(batch.images[i][783], batch.images[i][0]);
      EXPECT_EQ(class_of(batch.targets_of(i, 1)), batch.images[i][0] % 10);
      EXPECT_EQ(batch.records[i], batch.images[i][0]);
    }
    return shades;
  }

  /// Returns the records of the first `steps` batches.
  static std::vector<int> records(const Dataset& set, const StreamSlice& slice, int steps, bool shuffle = false) {
    BatchLoader loader(set, SampleOrder(set.size(), 3, shuffle), slice, prefetch());
    std::vector<int> shades;
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(loader.has_next());
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.first_position, slice.start + step * slice.global_batch + slice.tower_offset);
      EXPECT_EQ(batch.images.size(), slice.batch_size);
      EXPECT_EQ(batch.padding, 0u);
      for (const int shade : shades_of(batch)) shades.push_back(shade);
    }
    return shades;
  }
};
INSTANTIATE_TEST_SUITE_P(Sources, BatchLoaderTest, testing::Values(0, 1, 2, 3), [](const auto& source) {
  return source.param == 0 ? std::string("Memory") : fmt::format("{}Threads", source.param);
});

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

TEST_P(BatchLoaderTest, ALaterStartContinuesAtTheExactNextSample) {
  const Dataset set = dataset(30);
  const auto whole = records(set, {.start = 0, .global_batch = 7, .tower_offset = 0, .batch_size = 7}, 20, true);
  const auto rest = records(set, {.start = 7 * 12, .global_batch = 7, .tower_offset = 0, .batch_size = 7}, 8, true);
  EXPECT_EQ(rest, std::vector<int>(whole.begin() + 7 * 12, whole.end()));
}

TEST_P(BatchLoaderTest, ABatchByItsRecordsIsTheSameAndCanBeHadWhole) {
  const Dataset set = dataset(20);
  const StreamSlice slice{.global_batch = 6, .batch_size = 6};
  BatchLoader loader(set, SampleOrder(set.size(), 3, true), slice, prefetch());
  std::vector<int> found;
  for (int step = 0; step < 5; ++step) {
    const Batch& batch = loader.next_by_records();
    const std::vector<int> numbers(batch.records.begin(), batch.records.end());
    EXPECT_EQ(batch.images.empty(), set.in_memory());
    EXPECT_EQ(shades_of(loader.whole()), numbers);
    found.insert(found.end(), numbers.begin(), numbers.end());
  }
  EXPECT_EQ(found, records(set, slice, 5, true));
}

TEST_P(BatchLoaderTest, FewerRecordsThanABatchWrapAround) {
  const StreamSlice slice{.start = 0, .global_batch = 7, .tower_offset = 0, .batch_size = 7};
  EXPECT_EQ(records(dataset(3), slice, 2), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST_P(BatchLoaderTest, ManyBatchesComeInTheStreamsOrder) {
  const Dataset set = dataset(97);
  SampleOrder order(97, 3, true);
  std::vector<int> expected;
  for (std::uint64_t position = 0; position < 3000; ++position) {
    expected.push_back(static_cast<int>(order.record_at(position)));
  }
  EXPECT_EQ(records(set, {.start = 0, .global_batch = 3, .batch_size = 3}, 1000, true), expected);
}

TEST_P(BatchLoaderTest, ABatchOutsideTheGlobalBatchIsRefused) {
  const Dataset set = dataset(3);
  EXPECT_THROW(
      BatchLoader(set, SampleOrder(3, 1, true), {.start = 0, .global_batch = 4, .tower_offset = 2, .batch_size = 3}),
      Error);
}

TEST_P(BatchLoaderTest, TheLastBatchOfASliceRepeatsItsLastSampleAndSaysSo) {
  const Dataset set = dataset(20);
  BatchLoader loader(set, SampleOrder(20, 0, false), {.start = 5, .global_batch = 4, .batch_size = 4, .end = 14},
                     prefetch());
  std::vector<std::vector<int>> batches;
  std::vector<std::size_t> valid;
  while (loader.has_next()) {
    const Batch& batch = loader.next();
    batches.push_back(shades_of(batch));
    valid.push_back(batch.valid_count());
  }
  EXPECT_EQ(batches, (std::vector<std::vector<int>>{{5, 6, 7, 8}, {9, 10, 11, 12}, {13, 13, 13, 13}}));
  EXPECT_EQ(valid, (std::vector<std::size_t>{4, 4, 1}));
  EXPECT_THROW(loader.next(), Error);
}

TEST_P(BatchLoaderTest, ASliceOfWholeBatchesIsNotPadded) {
  const Dataset set = dataset(8);
  BatchLoader loader(set, SampleOrder(8, 0, false), {.start = 0, .global_batch = 4, .batch_size = 4, .end = 8},
                     prefetch());
  for (int step = 0; step < 2; ++step) EXPECT_EQ(loader.next().padding, 0u);
  EXPECT_FALSE(loader.has_next());
}

TEST_P(BatchLoaderTest, ASliceOfNothingHasNoBatch) {
  const Dataset set = dataset(3);
  BatchLoader loader(set, SampleOrder(3, 0, false), {.start = 3, .global_batch = 4, .batch_size = 4, .end = 3},
                     prefetch());
  EXPECT_FALSE(loader.has_next());
}

}  // namespace
}  // namespace carillon
