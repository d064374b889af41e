#include "carillon/data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  for (std::uint64_t position = 0; position < 500; ++position)  // leaping between all epochs
    EXPECT_EQ(again.record_at(position * 101 % 500), forward[position * 101 % 500]);
}

TEST(SampleOrder, StreamPositionsAbove32BitsWork) {
  SampleOrder order(1000, 5, true);
  const std::uint64_t far_epoch = (std::uint64_t{1} << 40);
  auto records = epoch_of(order, far_epoch, 1000);
  EXPECT_NE(records, epoch_of(order, 0, 1000));
  std::ranges::sort(records);
  EXPECT_EQ(records[999], 999u);
}

// By an implementation in Python. The order is part of what a checkpoint promises: a resumed run of a later version
// goes on with the same samples.
TEST(SampleOrder, StaysWhatItWas) {
  SampleOrder order(10, 1, true);
  EXPECT_EQ(epoch_of(order, 0, 10), (std::vector<std::uint64_t>{0, 4, 5, 9, 6, 7, 8, 2, 3, 1}));
}

// Chi-squared of the records at the first place over many epochs: 9 degrees of freedom, mean 9, deviation sqrt(18).
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

}  // namespace
}  // namespace carillon
