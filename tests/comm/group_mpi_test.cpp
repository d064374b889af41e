#include "src/comm/transport/group.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/comm/mpi/members.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

std::vector<float> contribution(int rank, std::size_t count) {
  return random_values(count, static_cast<std::uint64_t>(rank));
}

/// Returns the sum of the contributions of `ranks`, added in the order of `ranks`.
std::vector<float> sum_of(const std::vector<int>& ranks, std::size_t count) {
  std::vector<float> sum = contribution(ranks[0], count);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::vector<float> part = contribution(ranks[i], count);
    for (std::size_t element = 0; element < count; ++element) sum[element] += part[element];
  }
  return sum;
}

std::vector<int> all_ranks() {
  std::vector<int> ranks;
  for (int rank = 0; rank < mpi_world().size(); ++rank) ranks.push_back(rank);
  return ranks;
}

class GroupTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Group> group(WaitLimit limit = {}) const {
    return group_of(Members(mpi_world().ranks().all.comm(), limit));
  }
  std::unique_ptr<Group> group_of(Members members) const {
    return GetParam() == std::string("messages") ? make_message_group(std::move(members))
                                                 : make_shared_memory_group(std::move(members));
  }
  const int rank_ = mpi_world().rank(), size_ = mpi_world().size();
  const std::size_t counts_[6] = {0, 1, 17, 64, 1003, 200001};
};

TEST_P(GroupTest, ReduceScatterSumsThisRanksSliceInRankOrderHoweverLateARankIs) {
  const auto group = this->group();
  for (const std::size_t count : counts_) {
    const std::vector<float> sum = sum_of(all_ranks(), count);
    for (int late = 0; late < size_; ++late) {
      be_late(late);
      std::vector<float> values = contribution(rank_, count);
      group->reduce_scatter(values);
      const Slice own = reduction_slice(count, rank_, size_);
      EXPECT_EQ(std::memcmp(values.data() + own.begin, sum.data() + own.begin, (own.end - own.begin) * sizeof(float)),
                0)
          << count;
    }
  }
}

TEST_P(GroupTest, AllGatherBringsEveryRanksSliceHoweverLateItIs) {
  const auto group = this->group();
  for (const std::size_t count : counts_) {
    const std::vector<float> whole = random_values(count, count);
    for (int late = 0; late < size_; ++late) {
      be_late(late);
      std::vector<float> values(count, -1.0f);
      const Slice own = reduction_slice(count, rank_, size_);
      std::copy(whole.begin() + own.begin, whole.begin() + own.end, values.begin() + own.begin);
      group->all_gather(values);
      EXPECT_EQ(values, whole);
    }
  }
}

TEST_P(GroupTest, CallsMayBeUnderWayTogether) {
  const auto group = this->group();
  std::vector<float> first = contribution(rank_, 500), second = contribution(rank_, 1000);
  const auto one = group->start_reduce_scatter(first), two = group->start_reduce_scatter(second);
  be_late(0);
  one->wait();
  const auto three = group->start_all_gather(first);
  two->wait();
  const auto four = group->start_all_gather(second);
  three->wait();
  four->wait();
  EXPECT_EQ(first, sum_of(all_ranks(), 500));
  EXPECT_EQ(second, sum_of(all_ranks(), 1000));
}

TEST_P(GroupTest, BroadcastBringsAnyRootsValues) {
  const auto group = this->group();
  for (const std::size_t count : counts_) {
    for (int root = 0; root < size_; ++root) {
      be_late(root);
      std::vector<float> values = contribution(rank_, count);
      group->broadcast(values, root);
      EXPECT_EQ(values, contribution(root, count));
    }
  }
}

TEST_P(GroupTest, OfASplitHasTheMembersOfEqualColorOrderedByKey) {
  const auto part = group_of(mpi_world().ranks().all.split(rank_ % 2, -rank_));
  std::vector<int> ranks;
  for (int rank = size_ - 1; rank >= 0; --rank) {
    if (rank % 2 == rank_ % 2) ranks.push_back(rank);
  }
  ASSERT_EQ(part->size(), static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[static_cast<std::size_t>(part->rank())], rank_);
  std::vector<float> values = contribution(rank_, 1003);
  part->all_reduce(values);
  EXPECT_EQ(values, sum_of(ranks, 1003));
}

/// Calls `call`, a collective operation, on all ranks except the last one. Expects that the call fails within the time
/// limit, with an error that names the last rank.
template <typename Call>
void expect_to_miss_the_last_rank(const std::string& operation, const Call& call) {
  const int last = mpi_world().size() - 1;
  if (last == 0) return;  // there is no rank that can be missing
  if (mpi_world().rank() != last) {
    const auto start = std::chrono::steady_clock::now();
    try {
      call();
      ADD_FAILURE() << operation << " did not wait";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::lost_rank);
      EXPECT_EQ(error.what(), fmt::format("waited 0.2 s for rank {} in {}", last, operation));
    }
    const auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, std::chrono::milliseconds(200));
    EXPECT_LT(waited, std::chrono::seconds(5));
  }
  mpi_world().barrier();
}

TEST_P(GroupTest, ARankThatNeverComesIsNamedWithinTheLimit) {
  constexpr WaitLimit limit{.seconds = 0.2};
  constexpr std::size_t count = 10000;
  std::vector<float> values(count);
  const auto scattering = group(limit), gathering = group(limit), receiving = group(limit);
  const Members splitting(mpi_world().ranks().all.comm(), limit);
  expect_to_miss_the_last_rank("a reduce-scatter", [&] { scattering->reduce_scatter(values); });
  expect_to_miss_the_last_rank("an all-gather", [&] { gathering->all_gather(values); });
  expect_to_miss_the_last_rank("a broadcast", [&] { receiving->broadcast(values, size_ - 1); });
  expect_to_miss_the_last_rank("a split", [&] { splitting.split(0, rank_); });
}

TEST_P(GroupTest, AGroupOfASplitCallsItsRanksAsTheRunDoes) {
  if (size_ < 4) return;  // with 4 ranks, there is a pair that does not begin at rank 0
  const Members all(mpi_world().ranks().all.comm(), {.seconds = 0.2});
  const auto part = group_of(all.split(rank_ / 2, rank_));
  std::vector<float> values(1000);
  if (rank_ == 2) {
    try {
      part->all_gather(values);
      ADD_FAILURE() << "did not wait";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "waited 0.2 s for rank 3 in an all-gather");
    }
  }
  mpi_world().barrier();
}

TEST_P(GroupTest, OfOneRankReturnsItsValues) {
  const auto group = group_of(Members(MPI_COMM_SELF, {}));
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  std::vector<float> values = contribution(0, 1003);
  group->all_reduce(values);
  EXPECT_EQ(values, contribution(0, 1003));
  group->broadcast(values, 0);
  EXPECT_EQ(values, contribution(0, 1003));
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupTest, ::testing::Values("messages", "shared memory"));

TEST(ReductionSlice, CoversTheArrayAtMultiplesOf16) {
  for (const std::size_t count : {0, 1, 16, 17, 100, 1003}) {
    for (int size = 1; size <= 9; ++size) {
      std::size_t begin = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Slice slice = reduction_slice(count, rank, size);
        EXPECT_EQ(slice.begin, begin);
        EXPECT_TRUE(slice.end % 16 == 0 || slice.end == count);
        begin = slice.end;
      }
      EXPECT_EQ(begin, count);
    }
  }
}

}  // namespace
}  // namespace carillon::testing
