#include "carillon/data/batch_loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <functional>
#include <latch>
#include <thread>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// Where batches come from: 0 for a set in memory, else the number of threads that decode ahead. All must behave alike.
class BatchLoaderTest : public ScratchTest, public testing::WithParamInterface<int> {
 protected:
  Dataset dataset(int count) const {
    const std::vector<std::string> paths = {write("set", mnist_records(count))};
    return Dataset::open(paths, mnist_decoder, GetParam() == 0 ? CacheMode::memory : CacheMode::none);
  }
  static PrefetchSettings prefetch() { return {.thread_count = std::max(GetParam(), 1)}; }

  /// Checks all of a batch but which records it has, and returns those (known by their shade).
  static std::vector<int> shades_of(const Batch& batch) {
    std::vector<int> shades;
    EXPECT_EQ(batch.labels.size(), batch.images.size());
    EXPECT_EQ(batch.records.size(), batch.images.size());
    for (std::size_t i = 0; i < batch.images.size(); ++i) {
      shades.push_back(batch.images[i][0]);
      EXPECT_EQ(batch.images[i][783], batch.images[i][0]);
      EXPECT_EQ(batch.labels[i], batch.images[i][0] % 10);
      EXPECT_EQ(batch.records[i], batch.images[i][0]);
    }
    return shades;
  }

  /// The records of the first `steps` batches.
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

TEST_P(BatchLoaderTest, ALaterStartGoesOnAtTheExactNextSample) {
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

TEST_P(BatchLoaderTest, ALoaderEndsBeforeItsFirstBatchToo) {
  const Dataset set = dataset(3);
  for (int i = 0; i < 100; ++i) {
    BatchLoader(set, SampleOrder(3, 1, true), {.start = 0, .global_batch = 2, .batch_size = 2}, prefetch());
  }
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

/// With as many threads as the parameter says.
class PrefetchTest : public ScratchTest, public testing::WithParamInterface<int> {
 protected:
  Dataset dataset(const std::string& bytes) const {
    const std::vector<std::string> paths = {write("set", bytes)};
    return Dataset::open(paths, mnist_decoder, CacheMode::none);
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, PrefetchTest, testing::Values(1, 2, 3));

TEST_P(PrefetchTest, ADamagedRecordIsReportedAtItsBatchAndAfter) {
  std::string bytes = mnist_records(10);
  bytes[bytes.size() / 10 * 7 + 100] ^= 1;
  const Dataset set = dataset(bytes);
  BatchLoader loader(set, SampleOrder(10, 1, false), {.start = 0, .global_batch = 2, .batch_size = 2},
                     {.thread_count = GetParam()});
  for (int step = 0; step < 3; ++step) EXPECT_EQ(loader.next().labels[1], 2 * step + 1);
  for (int again = 0; again < 2; ++again) {
    const Failure failure = failure_of([&] { loader.next(); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr("set: record 7 at byte"));
  }
}

/// Refuses all samples, that at position 0 after that at position 1 where another thread can have it.
class LateFirstError final : public RecordDecoder {
 public:
  explicit LateFirstError(int thread_count) : RecordDecoder(mnist_schema), second_met_(thread_count > 1 ? 1 : 0) {}
  std::int32_t decode(std::span<const std::uint8_t>, std::uint64_t position, std::span<std::uint8_t>) const override {
    if (position == 0) {
      second_met_.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time enough for it to be said
    } else if (position == 1) {
      second_met_.count_down();
    }
    fail(ExitCode::data, "position {}", position);
  }

 private:
  mutable std::latch second_met_;
};

TEST_P(PrefetchTest, TheFirstErrorOfTheStreamIsReportedWhicheverIsMetFirst) {
  const std::vector<std::string> paths = {write("set", mnist_records(10))};
  const Dataset set = Dataset::open(paths, std::make_shared<LateFirstError>(GetParam()), CacheMode::none);
  BatchLoader loader(set, SampleOrder(10, 1, false), {.start = 0, .global_batch = 1, .batch_size = 1},
                     {.thread_count = GetParam()});
  EXPECT_THAT(failure_of([&] { loader.next(); }).text, HasSubstr("set: record 0 at byte 0: position 0"));
}

TEST_P(PrefetchTest, ABatchStaysAsItIsUntilTheNextCall) {
  const Dataset set = dataset(mnist_records(100));
  BatchLoader loader(set, SampleOrder(100, 1, false), {.start = 0, .global_batch = 4, .batch_size = 4},
                     {.thread_count = GetParam()});
  for (int step = 0; step < 20; ++step) {
    const Batch& batch = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time enough to be overwritten
    for (int i = 0; i < 4; ++i) ASSERT_EQ(batch.images[i][500], 4 * step + i);
  }
}

/// Counts the threads that are in `decode` at once, and waits there until all are.
class MeetingDecoder final : public RecordDecoder {
 public:
  explicit MeetingDecoder(int thread_count) : RecordDecoder(mnist_schema), meeting_(thread_count) {}
  std::int32_t decode(std::span<const std::uint8_t> record, std::uint64_t, std::span<std::uint8_t>) const override {
    meeting_.arrive_and_wait();
    return checked_label(record.empty() ? -1 : 0);
  }

 private:
  mutable std::barrier<> meeting_;
};

TEST_P(PrefetchTest, SoManyThreadsDecodeAtOnce) {
  const std::vector<std::string> paths = {write("set", mnist_records(10))};
  const Dataset set = Dataset::open(paths, std::make_shared<MeetingDecoder>(GetParam()), CacheMode::none);
  const std::uint64_t end = 2 * static_cast<std::uint64_t>(GetParam());
  BatchLoader loader(set, SampleOrder(10, 1, false), {.start = 0, .global_batch = 1, .batch_size = 1, .end = end},
                     {.thread_count = GetParam()});
  while (loader.has_next()) loader.next();  // would hang with fewer
}

/// Counts what is decoded.
class CountingDecoder final : public RecordDecoder {
 public:
  CountingDecoder() : RecordDecoder(mnist_schema) {}
  std::int32_t decode(std::span<const std::uint8_t>, std::uint64_t, std::span<std::uint8_t>) const override {
    ++count_;
    return 0;
  }
  int count() const { return count_; }

 private:
  mutable std::atomic<int> count_{0};
};

TEST_P(PrefetchTest, NoMoreIsDecodedAheadThanHasRoomInTheBytes) {
  const std::vector<std::string> paths = {write("set", mnist_records(100))};
  const auto decoder = std::make_shared<CountingDecoder>();
  const Dataset set = Dataset::open(paths, decoder, CacheMode::none);
  constexpr int batch = 5, batches = 3;
  BatchLoader loader(set, SampleOrder(100, 1, false), {.start = 0, .global_batch = batch, .batch_size = batch},
                     {.thread_count = GetParam(), .bytes = (batches * batch + 1) * set.image_bytes()});
  for (int step = 0; step < 10; ++step) {
    loader.next();
    const int expected = (step + batches) * batch;
    for (int waits = 0; decoder->count() < expected && waits < 2000; ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time enough to decode more
    EXPECT_EQ(decoder->count(), expected);
  }
}

TEST_P(PrefetchTest, BatchesOfWindowsAreThoseOfTheOrder) {
  const Dataset set = dataset(mnist_records(100));
  const OrderSettings settings{.seed = 3, .window = 32};
  SampleOrder order(100, settings);
  BatchLoader loader(set, order, {.start = 37, .global_batch = 7, .tower_offset = 2, .batch_size = 3},
                     {.thread_count = GetParam()});
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Batch& batch = loader.next();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(batch.images[i][0], order.record_at(37 + 7 * step + 2 + i));
  }
}

TEST_P(PrefetchTest, BatchesOfATowersShareAreThoseOfTheOrderFromAnyPositionOn) {
  const Dataset set = dataset(mnist_records(100));
  for (const std::uint64_t start : {0u, 3u, 41u}) {
    SampleOrder order(100, {.seed = 3, .window = 16, .shares = {0, 45}, .tower_batch = 4, .origin = start});
    BatchLoader loader(set, order, {.start = start, .global_batch = 8, .tower_offset = 4, .batch_size = 4},
                       {.thread_count = GetParam()});
    for (std::uint64_t step = 0; step < 60; ++step) {
      const Batch& batch = loader.next();
      for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(batch.images[i][0], order.record_at(start + 8 * step + 4 + i));
        ASSERT_GE(batch.images[i][0], 45);
      }
    }
  }
}

/// Of a set whose records take a while to come.
class SlowDecoder final : public RecordDecoder {
 public:
  SlowDecoder() : RecordDecoder(mnist_schema) {}
  std::int32_t decode(std::span<const std::uint8_t>, std::uint64_t, std::span<std::uint8_t>) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return 0;
  }
};

/// Else a rank that reads a large window would be taken for one that stands still.
TEST_F(ScratchTest, WhoWaitsForAWindowTellsThatItIsBeingRead) {
  const std::vector<std::string> paths = {write("set", mnist_records(100))};
  const Dataset set = Dataset::open(paths, std::make_shared<SlowDecoder>(), CacheMode::none);
  for (const std::uint64_t window : {0u, 50u}) {
    int signs = 0;
    BatchLoader loader(set, SampleOrder(100, {.seed = 3, .window = window}), {.end = 1},
                       {.thread_count = 1, .get_on = [&] { ++signs; }});
    loader.next();
    // What is decoded says nothing. The next window is read, too, which a look after another second may find.
    EXPECT_GE(signs, window > 0 ? 1 : 0);
    EXPECT_LE(signs, window > 0 ? 2 : 0);
  }
}

/// What this process has read from files by read(2) and its like.
double bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  double count = 0;
  file >> name >> count;
  EXPECT_EQ(name, "rchar:");
  return count;
}
/// By `work`, without what the counting reads.
double bytes_read_by(const std::function<void()>& work) {
  const double before = bytes_read(), between = bytes_read();
  work();
  return bytes_read() - between - (between - before);
}

class ReadingAheadTest : public ScratchTest {
 protected:
  Dataset open() const {
    const std::vector<std::string> paths = {write("a", mnist_records(50)), write("b", mnist_records(50))};
    return Dataset::open(paths, mnist_decoder, CacheMode::none);
  }
  static constexpr double some_digits = 8;  // by which /proc/self/io may grow
};

TEST_F(ReadingAheadTest, ReadsTheRecordsThatAreNamedAndNoOthers) {
  const Dataset set = open();
  const auto record = static_cast<double>(std::filesystem::file_size(path("a"))) / 50;
  const auto read_of = [&](const std::vector<std::uint32_t>& records) {
    return bytes_read_by([&] { set.fetch(records, {}); });
  };
  EXPECT_NEAR(read_of({}), 0, some_digits);
  EXPECT_NEAR(read_of({7}), record, some_digits);
  EXPECT_NEAR(read_of({3, 4, 5, 9, 99}), 5 * record, some_digits);
  EXPECT_NEAR(read_of({48, 49, 50, 51}), 4 * record, some_digits);  // of both files
}

TEST_F(ReadingAheadTest, EndsWhereItIsToldToOrFilesAreGone) {
  const Dataset set = open();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_NEAR(bytes_read_by([&] { set.fetch(std::vector<std::uint32_t>{1}, stop.get_token()); }), 0, some_digits);
  std::filesystem::remove(path("a"));
  EXPECT_NEAR(bytes_read_by([&] { set.fetch(std::vector<std::uint32_t>{1}, {}); }), 0, some_digits);
}

/// Of an epoch of 100 records, each of two processes its half, and a window more at most.
TEST_F(ReadingAheadTest, EachRecordIsReadOnceAnEpochByOneProcessOfTheHost) {
  const Dataset set = open();
  const auto record = static_cast<double>(std::filesystem::file_size(path("a"))) / 50;
  for (const std::size_t processes : {1u, 2u}) {
    for (std::size_t process = 0; process < processes; ++process) {
      const double read = bytes_read_by([&] {
        BatchLoader loader(set, SampleOrder(100, {.seed = 3, .window = 20}),
                           {.start = 0, .global_batch = 10, .batch_size = 10, .end = 100},
                           {.thread_count = 2, .part = {process, processes}});
        while (loader.has_next()) loader.next();
      });
      const double parts = static_cast<double>(processes);
      EXPECT_GE(read + some_digits, 100 * record / parts);
      EXPECT_LE(read - some_digits, 120 * record / parts);
    }
  }
}

TEST_F(ScratchTest, NoThreadToDecodeIsRefused) {
  const std::vector<std::string> paths = {write("set", mnist_records(3))};
  const Dataset set = Dataset::open(paths, mnist_decoder, CacheMode::none);
  EXPECT_THROW(BatchLoader(set, SampleOrder(3, 1, true), {}, {.thread_count = 0}), Error);
}

}  // namespace
}  // namespace carillon
