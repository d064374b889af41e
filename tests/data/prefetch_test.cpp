// Tests of batches that threads decode ahead: errors, limits of the memory in bytes, and shuffle windows.
#include "src/data/loading/batch_loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// The parameter is the number of threads.
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
  for (int step = 0; step < 3; ++step) EXPECT_EQ(class_of(loader.next().targets_of(1, 1)), 2 * step + 1);
  for (int again = 0; again < 2; ++again) {
    const Failure failure = failure_of([&] { loader.next(); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr("set: record 7 at byte"));
  }
}

/// A decoder that rejects all samples. With several threads, it reports the error of position 0 later than the error of
/// position 1.
class LateFirstError final : public LabelledImageDecoder {
 public:
  explicit LateFirstError(int thread_count)
      : LabelledImageDecoder(mnist_schema), second_met_(thread_count > 1 ? 1 : 0) {}
  void decode(std::span<const std::uint8_t>, std::uint64_t position, std::span<std::uint8_t>,
              std::span<std::byte>) const override {
    if (position == 0) {
      second_met_.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough for another thread to report its error
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
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for another thread to overwrite the batch
    for (int i = 0; i < 4; ++i) ASSERT_EQ(batch.images[i][500], 4 * step + i);
  }
}

/// A decoder that counts how many threads are in `decode` at the same time. In `decode`, each thread waits until all
/// threads are in `decode`.
class MeetingDecoder final : public LabelledImageDecoder {
 public:
  explicit MeetingDecoder(int thread_count) : LabelledImageDecoder(mnist_schema), meeting_(thread_count) {}
  void decode(std::span<const std::uint8_t> record, std::uint64_t, std::span<std::uint8_t>,
              std::span<std::byte> target) const override {
    meeting_.arrive_and_wait();
    write_class(record.empty() ? -1 : 0, target);
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
  while (loader.has_next()) loader.next();  // hangs if fewer threads decode
}

/// A decoder that counts the calls of `decode`.
class CountingDecoder final : public LabelledImageDecoder {
 public:
  CountingDecoder() : LabelledImageDecoder(mnist_schema) {}
  void decode(std::span<const std::uint8_t>, std::uint64_t, std::span<std::uint8_t>,
              std::span<std::byte>) const override {
    ++count_;
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
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough to decode more than expected
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

/// A decoder that counts the calls of `decode`, and the threads that are in `decode`. Each call takes 2 ms.
class OccupiedDecoder final : public RecordDecoder {
 public:
  OccupiedDecoder() : RecordDecoder(mnist_schema.image_shape, {}) {}
  void decode(std::span<const std::uint8_t>, std::uint64_t, std::span<std::uint8_t>,
              std::span<std::byte>) const override {
    ++inside_;
    ++begun_;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside_;
  }
  int inside() const { return inside_; }
  int begun() const { return begun_; }

 private:
  mutable std::atomic<int> inside_{0}, begun_{0};
};

TEST_P(PrefetchTest, NoThreadDecodesAfterTheDestructionOfALoaderWithoutABatch) {
  const std::vector<std::string> paths = {write("set", mnist_records(100))};
  const auto decoder = std::make_shared<OccupiedDecoder>();
  const Dataset set = Dataset::open(paths, decoder, CacheMode::none);
  for (const std::uint64_t window : {0u, 50u}) {
    for (const bool waits : {false, true}) {
      for (int round = 0; round < 5; ++round) {
        const int before = decoder->begun();
        {
          const BatchLoader loader(set, SampleOrder(100, {.seed = 3, .window = window}),
                                   {.start = 0, .global_batch = 4, .batch_size = 4}, {.thread_count = GetParam()});
          while (waits && decoder->begun() == before) std::this_thread::yield();
        }
        EXPECT_EQ(decoder->inside(), 0);
        const int begun = decoder->begun();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        EXPECT_EQ(decoder->begun(), begun);
      }
    }
  }
}

/// A decoder for a dataset whose records are slow to read.
class SlowDecoder final : public LabelledImageDecoder {
 public:
  SlowDecoder() : LabelledImageDecoder(mnist_schema) {}
  void decode(std::span<const std::uint8_t>, std::uint64_t, std::span<std::uint8_t>,
              std::span<std::byte>) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
};

/// Without heartbeats, the stall detector would report a rank while it reads a large window.
TEST_F(ScratchTest, WaitingForAWindowSendsHeartbeats) {
  const std::vector<std::string> paths = {write("set", mnist_records(100))};
  const Dataset set = Dataset::open(paths, std::make_shared<SlowDecoder>(), CacheMode::none);
  for (const std::uint64_t window : {0u, 50u}) {
    int signs = 0;
    BatchLoader loader(set, SampleOrder(100, {.seed = 3, .window = window}), {.end = 1},
                       {.thread_count = 1, .heartbeat = [&] { ++signs; }});
    loader.next();
    // Decoding sends no heartbeats, but reading a window sends one. There may be two heartbeats, because the loader may
    // already have read the second window.
    EXPECT_GE(signs, window > 0 ? 1 : 0);
    EXPECT_LE(signs, window > 0 ? 2 : 0);
  }
}

TEST_F(ScratchTest, NoThreadToDecodeIsRefused) {
  const std::vector<std::string> paths = {write("set", mnist_records(3))};
  const Dataset set = Dataset::open(paths, mnist_decoder, CacheMode::none);
  EXPECT_THROW(BatchLoader(set, SampleOrder(3, 1, true), {}, {.thread_count = 0}), Error);
}

}  // namespace
}  // namespace carillon
