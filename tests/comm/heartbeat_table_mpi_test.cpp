#include "src/comm/stall/heartbeat_table.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "src/comm/mpi/members.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class HeartbeatTableTest : public ::testing::Test {
 protected:
  /// Sets this rank's step and phase, and waits until every rank has set its own step and phase.
  void be_at(std::int64_t step, Phase phase) {
    table_.own().step = step;
    table_.own().phase = static_cast<int>(phase);
    mpi_.barrier();
  }

  Mpi& mpi_ = mpi_world();
  HeartbeatTable table_{mpi_.ranks().local};
};

TEST_F(HeartbeatTableTest, ARankAtTheOthersStepDelaysNoRank) {
  be_at(7, Phase::compute);
  EXPECT_EQ(table_.slowest_member(), std::nullopt);
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, ARankOneStepBehindDelaysTheOthers) {
  const int last = mpi_.size() - 1;
  be_at(mpi_.rank() == last ? 6 : 7, mpi_.rank() == last ? Phase::compute : Phase::data);
  EXPECT_EQ(table_.slowest_member(), mpi_.rank() == last ? std::nullopt : std::optional(last));
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, ARankThatReadsDataDelaysRanksThatCompute) {
  const int last = mpi_.size() - 1;
  be_at(7, mpi_.rank() == last ? Phase::data : Phase::compute);
  EXPECT_EQ(table_.slowest_member(), mpi_.rank() == last ? std::nullopt : std::optional(last));
  mpi_.barrier();
}

/// While a rank saves or evaluates, its entry already has the number of the next step.
TEST_F(HeartbeatTableTest, ARankThatSavesOrEvaluatesDelaysRanksInTheNextStep) {
  const int last = mpi_.size() - 1;
  for (const Phase before : {Phase::checkpoint, Phase::evaluation}) {
    be_at(7, mpi_.rank() == last ? before : Phase::data);
    EXPECT_EQ(table_.slowest_member(), mpi_.rank() == last ? std::nullopt : std::optional(last));
    mpi_.barrier();
  }
}

TEST_F(HeartbeatTableTest, KnowsARankThatHasFailed) {
  EXPECT_FALSE(table_.has_failed_member());
  mpi_.barrier();
  if (mpi_.rank() == mpi_.size() - 1) table_.own().failed_with = 65;
  mpi_.barrier();
  EXPECT_TRUE(table_.has_failed_member());
  EXPECT_EQ(table_.failed_member(), mpi_.size() - 1);
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, KnowsARankWhoseProcessHasEnded) {
  const pid_t ended = ::fork();
  if (ended == 0) std::_Exit(0);
  ::waitpid(ended, nullptr, 0);
  mpi_.barrier();
  if (mpi_.rank() == mpi_.size() - 1) table_.own().process = ended;
  mpi_.barrier();
  EXPECT_TRUE(table_.has_failed_member());
  EXPECT_EQ(table_.ended_member(), mpi_.size() - 1);
  EXPECT_TRUE(table_.is_lowest() == (mpi_.rank() == 0));
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, TheLowestMemberIsTheFirstLiveOne) {
  const pid_t ended = ::fork();
  if (ended == 0) std::_Exit(0);
  ::waitpid(ended, nullptr, 0);
  EXPECT_EQ(table_.ended_member(), std::nullopt);
  mpi_.barrier();
  if (mpi_.rank() == 0) table_.own().process = ended;
  mpi_.barrier();
  EXPECT_EQ(table_.ended_member(), 0);
  EXPECT_EQ(table_.is_lowest(), mpi_.rank() <= 1);
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, KnowsThatTheMemberThatEndsTheRunHasEnded) {
  const pid_t ended = ::fork();
  if (ended == 0) std::_Exit(0);
  ::waitpid(ended, nullptr, 0);
  const int last = mpi_.size() - 1;
  if (mpi_.rank() == last) {
    EXPECT_TRUE(table_.is_first_to_end());
  }
  mpi_.barrier();
  EXPECT_TRUE(table_.run_ends());
  EXPECT_FALSE(table_.is_first_to_end());
  EXPECT_FALSE(table_.ending_member_has_ended());
  mpi_.barrier();
  if (mpi_.rank() == last) table_.own().process = ended;
  mpi_.barrier();
  EXPECT_TRUE(table_.ending_member_has_ended());
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, ARankThatEndsAfterAnErrorWasNotKilled) {
  const pid_t ended = ::fork();
  if (ended == 0) std::_Exit(0);
  ::waitpid(ended, nullptr, 0);
  EXPECT_FALSE(table_.was_killed(0)) << "it runs";
  mpi_.barrier();
  if (mpi_.rank() == 0) table_.own().process = ended;
  mpi_.barrier();
  EXPECT_TRUE(table_.was_killed(0));
  mpi_.barrier();
  if (mpi_.rank() == 0) table_.own().failed_with = 70;
  mpi_.barrier();
  EXPECT_TRUE(table_.has_ended(0));
  EXPECT_FALSE(table_.was_killed(0));
  mpi_.barrier();
}

TEST_F(HeartbeatTableTest, NamesTheHangingRankAndItsPhase) {
  be_at(7, Phase::data);
  const int last = mpi_.size() - 1;
  EXPECT_THAT(table_.stall_text(last), ::testing::MatchesRegex("rank " + std::to_string(last) +
                                                               " hangs: it has been in data of step 7 for [0-9]+ s"));
  mpi_.barrier();
}

TEST(Stillness, AddsUpHowLongASignStays) {
  Stillness stillness(1.0);
  EXPECT_EQ(stillness.seconds(1, 10.0), 0.0);
  EXPECT_EQ(stillness.seconds(1, 10.5), 0.5);
  EXPECT_EQ(stillness.seconds(1, 11.5), 1.5);
  EXPECT_EQ(stillness.seconds(2, 11.75), 0.0);
  EXPECT_DOUBLE_EQ(stillness.seconds(2, 12.0), 0.25);
}

TEST(Stillness, CountsAGapInWhichNobodyLookedAsTheLargest) {
  Stillness stillness(1.0);
  stillness.seconds(1, 10.0);
  EXPECT_EQ(stillness.seconds(1, 500.0), 1.0);
  EXPECT_EQ(stillness.seconds(1, 500.25), 1.25);
}

}  // namespace
}  // namespace carillon::testing
