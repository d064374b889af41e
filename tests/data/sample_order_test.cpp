#include "src/data/loading/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "carillon/core/error.h"

namespace carillon {
namespace {

std::vector<std::uint64_t> epoch_of(SampleOrder& order, std::uint64_t epoch, std::uint64_t record_count) {
  std::vector<std::uint64_t> records;
  for (std::uint64_t i = 0; i < record_count; ++i) records.push_back(order.record_at(epoch * record_count + i));
  return records;
}

TEST(SampleOrder, UnshuffledItIsTheIdentityOfEveryEpoch) {
  SampleOrder order(7, 1, false);
  for (std::uint64_t position = 0; position < 30; ++position) EXPECT_EQ(order.record_at(position), position % 7);
}

TEST(SampleOrder, EveryEpochHasEveryRecordOnce) {
  for (const std::uint64_t count : {1u, 2u, 3u, 1000u}) {
    SampleOrder order(count, 5, true);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      auto records = epoch_of(order, epoch, count);
      std::ranges::sort(records);
      for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(records[i], i);
    }
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  SampleOrder order(1000, 5, true), other(1000, 6, true);
  EXPECT_NE(epoch_of(order, 0, 1000), epoch_of(order, 1, 1000));
  EXPECT_NE(epoch_of(order, 0, 1000), epoch_of(other, 0, 1000));
}

TEST(SampleOrder, APositionsRecordDoesNotDependOnWhatWasAskedBefore) {
  SampleOrder order(100, 5, true), again(100, 5, true);
  std::vector<std::uint64_t> forward;
  for (std::uint64_t position = 0; position < 500; ++position) forward.push_back(order.record_at(position));
  for (std::uint64_t position = 500; position-- > 0;) EXPECT_EQ(again.record_at(position), forward[position]);
  for (std::uint64_t position = 0; position < 500; ++position)  // the positions jump between the epochs
    EXPECT_EQ(again.record_at(position * 101 % 500), forward[position * 101 % 500]);
}

TEST(SampleOrder, AnEpochMadeAheadIsTheOneThatIsMadeWhenAskedFor) {
  constexpr std::uint64_t count = 20000;
  for (const OrderSettings& settings :
       {OrderSettings{.seed = 5}, {.seed = 5, .window = 4000}, {.seed = 5, .shares = {0, 10000}, .tower_batch = 10}}) {
    SampleOrder onward(count, settings), back(count, settings);
    std::vector<std::uint64_t> ahead, asked;
    for (std::uint64_t position = 0; position < 4 * count; position += 7) ahead.push_back(onward.record_at(position));
    // Begins with the last position. Reason: the result for a position must not depend on whether an earlier epoch was
    // generated before.
    for (std::uint64_t i = ahead.size(); i-- > 0;) asked.push_back(back.record_at(7 * i));
    std::ranges::reverse(asked);
    EXPECT_EQ(ahead, asked);
  }
}

TEST(SampleOrder, StreamPositionsAbove32BitsWork) {
  SampleOrder order(1000, 5, true);
  const std::uint64_t far_epoch = (std::uint64_t{1} << 40);
  auto records = epoch_of(order, far_epoch, 1000);
  EXPECT_NE(records, epoch_of(order, 0, 1000));
  std::ranges::sort(records);
  EXPECT_EQ(records[999], 999u);
}

// An implementation in Python computed these numbers. The order must not change: a run that a later version resumes
// must continue with the same samples.
TEST(SampleOrder, DoesNotChangeBetweenReleases) {
  SampleOrder order(10, 1, true);
  EXPECT_EQ(epoch_of(order, 0, 10), (std::vector<std::uint64_t>{0, 4, 5, 9, 6, 7, 8, 2, 3, 1}));
}

TEST(SampleOrder, OfWindowsDoesNotChangeBetweenReleases) {
  SampleOrder order(50, {.seed = 1, .window = 32});
  EXPECT_EQ(epoch_of(order, 0, 50),
            (std::vector<std::uint64_t>{32, 2,  10, 24, 44, 22, 6,  7,  19, 23, 4,  37, 40, 35, 1,  34, 5,
                                        39, 38, 36, 49, 41, 18, 25, 42, 45, 11, 3,  0,  43, 33, 48, 9,  29,
                                        28, 31, 30, 15, 12, 14, 20, 46, 17, 21, 26, 8,  16, 27, 13, 47}));
  EXPECT_EQ(epoch_of(order, 1, 50),
            (std::vector<std::uint64_t>{17, 3,  37, 10, 18, 22, 19, 4,  1,  5,  36, 41, 31, 20, 26, 44, 30,
                                        23, 39, 11, 15, 2,  16, 45, 28, 29, 21, 38, 0,  14, 40, 27, 33, 34,
                                        42, 25, 12, 8,  9,  6,  24, 47, 35, 13, 46, 48, 7,  43, 32, 49}));
}

TEST(SampleOrder, OfSharesDoesNotChangeBetweenReleases) {
  SampleOrder order(10, {.seed = 1, .shares = {0, 4}, .tower_batch = 2});
  std::vector<std::uint64_t> records;
  for (std::uint64_t position = 0; position < 24; ++position) records.push_back(order.record_at(position));
  EXPECT_EQ(records,
            (std::vector<std::uint64_t>{2, 3, 6, 7, 1, 0, 4, 8, 2, 1, 9, 5, 3, 0, 5, 6, 1, 0, 4, 8, 2, 3, 7, 9}));
}

/// Returns the number of sequences of consecutive numbers in `records`, which is in ascending order.
std::size_t stretches(const std::vector<std::uint32_t>& records) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < records.size(); ++i) count += records[i] != records[i - 1] + 1 ? 1 : 0;
  return count;
}

/// A window consists of runs of consecutive records. Some dataset sizes in this test are no multiple of the window's
/// size or of a run's length.
TEST(SampleOrder, AWindowsRecordsAreInFewPlacesOfTheFiles) {
  for (const std::uint64_t count : {1000u, 1001u, 333u, 160u}) {
    SampleOrder order(count, {.seed = 5, .window = 160});
    for (SampleOrder::Window window = order.window_at(0); window.begin < 3 * count;
         window = order.window_after(window)) {
      const std::vector<std::uint32_t> records = order.records_in(window);
      EXPECT_LE(stretches(records), 18u);  // 16 runs; two of them may be divided
      std::vector<std::uint64_t> taken;
      for (std::uint64_t position = window.begin; position < window.end; ++position) {
        EXPECT_EQ(order.window_at(position).begin, window.begin);
        taken.push_back(order.record_at(position));
      }
      EXPECT_FALSE(std::ranges::is_sorted(taken));
      std::ranges::sort(taken);
      EXPECT_TRUE(std::ranges::equal(taken, records));
    }
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      auto records = epoch_of(order, epoch, count);
      std::ranges::sort(records);
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(records[i], i);
    }
  }
}

TEST(SampleOrder, TowersWithSharesTakeAllOfTheirOwnBeforeOneAgain) {
  constexpr std::uint64_t batch = 3;
  const std::vector<std::uint64_t> shares = {0, 10, 37}, ends = {10, 37, 50};
  for (const std::uint64_t window : {0u, 16u}) {
    SampleOrder order(50, {.seed = 5, .window = window, .shares = shares, .tower_batch = batch});
    std::array<std::vector<std::uint64_t>, 3> taken;
    for (std::uint64_t position = 0; position < 9 * 40; ++position)
      taken[position / batch % 3].push_back(order.record_at(position));
    for (std::size_t tower = 0; tower < 3; ++tower) {
      const std::uint64_t count = ends[tower] - shares[tower];
      for (std::uint64_t epoch = 0; (epoch + 1) * count <= taken[tower].size(); ++epoch) {
        const auto begin = taken[tower].begin() + static_cast<std::ptrdiff_t>(epoch * count);
        std::vector<std::uint64_t> records(begin, begin + static_cast<std::ptrdiff_t>(count));
        std::ranges::sort(records);
        for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(records[i], shares[tower] + i);
      }
    }
  }
}

TEST(SampleOrder, WithAnEmptyShareIsRefused) {
  EXPECT_THROW(SampleOrder(10, {.shares = {0, 5, 5}, .tower_batch = 1}), Error);
  EXPECT_THROW(SampleOrder(10, {.shares = {0, 10}, .tower_batch = 1}), Error);
}

// Computes, for each place, the chi-squared statistic of the records at this place over many epochs. The statistic has
// 9 degrees of freedom, the mean 9 and the standard deviation sqrt(18).
TEST(SampleOrder, EveryRecordIsEquallyLikelyAtEveryPlace) {
  constexpr std::uint64_t count = 10, epochs = 20'000;
  SampleOrder order(count, 3, true);
  std::vector<std::vector<double>> seen(count, std::vector<double>(count));
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::uint64_t i = 0; i < count; ++i) ++seen[i][order.record_at(epoch * count + i)];
  for (const auto& place : seen) {
    double chi_squared = 0;
    for (const double times : place) chi_squared += std::pow(times - epochs / count, 2) / (epochs / count);
    EXPECT_LT(chi_squared, 9 + 5 * std::sqrt(18.0));
  }
}

TEST(SampleOrder, RefusesCountsItCannotOrder) {
  EXPECT_THROW(SampleOrder(0, 1, true), Error);
  EXPECT_THROW(SampleOrder(std::uint64_t{1} << 32, 1, true), Error);
}

TEST(SampleOrder, RunsOfPositionsAreTheirRecordsOneByOne) {
  const OrderSettings forms[] = {{.seed = 3},
                                 {.seed = 3, .shuffle = false},
                                 {.seed = 3, .window = 40},
                                 {.seed = 3, .shares = {0, 31, 40}, .tower_batch = 5, .origin = 7},
                                 {.shuffle = false, .shares = {0, 31, 40}, .tower_batch = 5, .origin = 7}};
  for (const OrderSettings& settings : forms) {
    SampleOrder one_by_one(101, settings), in_runs(101, settings);
    for (std::uint64_t position = 7; position < 700; position += 64) {
      std::vector<std::uint32_t> records(position % 3 * 60 + 1);
      in_runs.records_at(position, records);
      for (std::size_t i = 0; i < records.size(); ++i) {
        ASSERT_EQ(records[i], one_by_one.record_at(position + i)) << position << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace carillon
