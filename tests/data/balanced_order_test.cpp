#include "src/data/loading/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "carillon/core/error.h"

namespace carillon {
namespace {

const auto groups = std::make_shared<RecordGroups>(RecordGroups{{0, 3, 4, 6, 8}, {1}, {2, 5, 7}});

std::vector<std::uint64_t> records_of(SampleOrder& order, std::uint64_t begin, std::size_t count) {
  std::vector<std::uint32_t> records(count);
  order.records_at(begin, records);
  return {records.begin(), records.end()};
}

SampleOrder order_of(std::uint64_t seed = 1, bool shuffle = true) {
  return {9, {.seed = seed, .shuffle = shuffle, .groups = groups}};
}

std::size_t group_of(std::uint64_t record) {
  const auto has = [&](const std::vector<std::uint32_t>& group) { return std::ranges::count(group, record) > 0; };
  return static_cast<std::size_t>(std::ranges::find_if(*groups, has) - groups->begin());
}

TEST(BalancedOrder, EachBlockHasEachGroupOnce) {
  SampleOrder order = order_of();
  std::set<std::vector<std::size_t>> orders;
  for (std::uint64_t block = 0; block < 100; ++block) {
    std::vector<std::size_t> found;
    for (const std::uint64_t record : records_of(order, 3 * block, 3)) found.push_back(group_of(record));
    orders.insert(found);
    std::ranges::sort(found);
    EXPECT_EQ(found, (std::vector<std::size_t>{0, 1, 2}));
  }
  EXPECT_EQ(orders.size(), 6u) << "each order of the groups occurs";
}

TEST(BalancedOrder, EachPassOverAGroupHasEachOfItsRecordsOnceInANewOrder) {
  SampleOrder order = order_of();
  std::map<std::size_t, std::vector<std::uint64_t>> taken;
  for (const std::uint64_t record : records_of(order, 0, 3 * 150)) taken[group_of(record)].push_back(record);
  for (std::size_t g = 0; g < groups->size(); ++g) {
    const std::vector<std::uint32_t>& group = (*groups)[g];
    std::set<std::vector<std::uint64_t>> orders;
    for (auto pass = taken[g].begin(); pass != taken[g].end(); pass += static_cast<std::ptrdiff_t>(group.size())) {
      std::vector<std::uint64_t> records(pass, pass + static_cast<std::ptrdiff_t>(group.size()));
      orders.insert(records);
      std::ranges::sort(records);
      EXPECT_TRUE(std::ranges::equal(records, group));
    }
    EXPECT_EQ(orders.size() > 1, group.size() > 1);
  }
}

TEST(BalancedOrder, APositionsRecordDoesNotDependOnWhatWasAskedBefore) {
  SampleOrder onward = order_of(5), back = order_of(5);
  const std::vector<std::uint64_t> expected = records_of(onward, 0, 200);
  for (std::uint64_t position = 200; position-- > 0;) EXPECT_EQ(back.record_at(position), expected[position]);
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(back.record_at(i * 77 % 200), expected[i * 77 % 200]);
}

TEST(BalancedOrder, SeedsDiffer) {
  SampleOrder one = order_of(1), other = order_of(2);
  EXPECT_NE(records_of(one, 0, 60), records_of(other, 0, 60));
}

TEST(BalancedOrder, UnshuffledItTakesGroupsAndRecordsInOrder) {
  SampleOrder order = order_of(1, false);
  EXPECT_EQ(records_of(order, 0, 12), (std::vector<std::uint64_t>{0, 1, 2, 3, 1, 5, 4, 1, 7, 6, 1, 2}));
}

// An implementation in Python computed these numbers. They must not change (see the same test in
// sample_order_test.cpp).
TEST(BalancedOrder, DoesNotChangeBetweenReleases) {
  SampleOrder order = order_of();
  EXPECT_EQ(records_of(order, 0, 30), (std::vector<std::uint64_t>{8, 2, 1, 1, 7, 0, 6, 1, 5, 1, 4, 7, 1, 3, 5,
                                                                  2, 1, 4, 0, 1, 5, 7, 6, 1, 1, 2, 8, 1, 2, 3}));
  EXPECT_EQ(records_of(order, std::uint64_t{1} << 40, 9), (std::vector<std::uint64_t>{5, 0, 8, 1, 2, 1, 7, 3, 1}));
}

TEST(BalancedOrder, RefusesWhatItCannotOrder) {
  const auto refused = [](const OrderSettings& settings) { EXPECT_THROW(SampleOrder(9, settings), Error); };
  refused({.groups = std::make_shared<RecordGroups>()});
  refused({.groups = std::make_shared<RecordGroups>(RecordGroups{{0}, {}})});
  refused({.window = 4, .groups = groups});
  refused({.shares = {0, 4}, .tower_batch = 2, .groups = groups});
}

}  // namespace
}  // namespace carillon
