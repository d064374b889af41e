#include "src/comm/stall/stall_detector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "carillon/core/error.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

using Clock = std::chrono::steady_clock;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// For `seconds`, calls body(seconds since the start) repeatedly.
template <typename Body>
void repeat_for(double seconds, const Body& body) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds; sleep_for(0.02)) body(seconds_since(start));
}

class StallDetectorTest : public ::testing::Test {
 protected:
  /// Returns the rank for which the other ranks wait.
  int last() const { return mpi_.size() - 1; }
  bool is_last() const { return mpi_.rank() == last(); }

  /// The last rank does `work`, and the other ranks wait for the last rank. Returns the error with which this rank's
  /// wait ends, or an empty text if it ends without an error.
  template <typename Work>
  std::string looks_while_last(StallDetector& stall_detector, const Work& work, double seconds = long_enough) {
    stall_detector.enter(Phase::compute, 7);
    mpi_.barrier();
    if (!is_last()) return error_of_looks(stall_detector, ranks_, seconds);
    work();
    return "";
  }

  /// Waits for `ranks`, at most `longest` seconds. Returns the error with which the wait ends, or an empty text if it
  /// ends without an error.
  std::string error_of_looks(StallDetector& stall_detector, std::span<const int> ranks,
                             double longest = long_enough) const {
    try {
      repeat_for(longest, [&](double seconds) { stall_detector.still_waiting("averaging", ranks, seconds); });
    } catch (const Error& error) {
      return error.code() == ExitCode::lost_rank ? error.what() : "another exit code";
    }
    return "";
  }

  /// Gathers the error texts of all ranks, and returns the texts that are not empty.
  std::vector<std::string> errors_of_all(const std::string& own) {
    std::vector<std::string> all = mpi_.all_gather(own);
    std::erase(all, "");
    return all;
  }

  Mpi& mpi_ = mpi_world();
  std::array<int, 1> ranks_{last()};
  static constexpr double stall = 1.0, long_enough = 1.75;
};

TEST_F(StallDetectorTest, EveryRankSeesTheOtherRanksOfItsHost) {
  StallDetector stall_detector(mpi_, {});
  stall_detector.enter(Phase::evaluation, 100 + mpi_.rank());
  mpi_.barrier();
  const std::vector<RankActivity> all = stall_detector.activities();
  ASSERT_EQ(static_cast<int>(all.size()), mpi_.size());
  for (int rank = 0; rank < mpi_.size(); ++rank) {
    EXPECT_EQ(all[rank].rank, rank);
    EXPECT_EQ(all[rank].phase, Phase::evaluation);
    EXPECT_EQ(all[rank].step, 100 + rank);
    EXPECT_GE(all[rank].seconds_in_phase, 0.0);
    EXPECT_LT(all[rank].seconds_in_phase, 600.0);
  }
  mpi_.barrier();
}

TEST_F(StallDetectorTest, AHangingRankIsNamedOnceWithItsPhase) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const std::string error = looks_while_last(stall_detector, [] { sleep_for(long_enough); });
  const std::vector<std::string> told = errors_of_all(error);
  ASSERT_EQ(told.size(), 1u);
  const std::string rank = "rank " + std::to_string(last());
  EXPECT_THAT(told.front(), ::testing::MatchesRegex(rank +
                                                    " hangs: it has been in compute of step 7 for [0-9]+ s; this rank "
                                                    "has waited for " +
                                                    rank + " in averaging for [0-9]+ s"));
}

TEST_F(StallDetectorTest, NamesTheRecordThatAHangingRankReads) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  stall_detector.describe_data(
      [](int rank, std::int64_t step) { return fmt::format("record {} of rank {}", 10 * step, rank); });
  const auto stand_still = [&] {
    stall_detector.enter(Phase::data, 8);
    sleep_for(long_enough);
  };
  const std::vector<std::string> told = errors_of_all(looks_while_last(stall_detector, stand_still));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told.front(), ::testing::HasSubstr(fmt::format(" s, record 80 of rank {}; this rank has", last())));
}

TEST_F(StallDetectorTest, OfTwoRanksThatStandStillOneIsNamed) {
  if (mpi_.size() <= 2) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  stall_detector.enter(Phase::compute, 7);
  mpi_.barrier();
  std::string error;
  if (mpi_.rank() + 2 >= mpi_.size()) {
    sleep_for(2.0 * long_enough);
  } else {
    error = error_of_looks(stall_detector, ranks_);
    error += error_of_looks(stall_detector, ranks_);  // the detector must not end the run a second time
  }
  EXPECT_EQ(errors_of_all(error).size(), 1u);
}

TEST_F(StallDetectorTest, ARankThatGetsOnIsNotStalled) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const auto heartbeat = [&] { repeat_for(long_enough, [&](double) { stall_detector.enter(Phase::compute, 7); }); };
  EXPECT_EQ(looks_while_last(stall_detector, heartbeat), "");
  mpi_.barrier();
}

TEST_F(StallDetectorTest, ARankThatWaitsItselfIsNotStalled) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const auto wait_too = [&] {
    repeat_for(long_enough, [&](double) { stall_detector.still_waiting("averaging", std::array<int, 1>{0}, 0.0); });
  };
  EXPECT_EQ(looks_while_last(stall_detector, wait_too), "");
  mpi_.barrier();
}

TEST_F(StallDetectorTest, PhasesThatAreNoPartOfAStepMayTakeFourTimesAsLong) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  constexpr double beyond_twice_the_limit = 2.5 * stall;
  const auto save = [&] {
    stall_detector.enter(Phase::checkpoint, 7);
    sleep_for(beyond_twice_the_limit);
  };
  EXPECT_EQ(looks_while_last(stall_detector, save, beyond_twice_the_limit), "");
  mpi_.barrier();
}

/// Simulates a suspended job: the clocks advance, but no rank runs.
TEST_F(StallDetectorTest, TimeInWhichTheLookingProcessDidNotRunDoesNotCount) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = 1.5, .ends_own_stall = false});
  stall_detector.enter(Phase::compute, 7);
  mpi_.barrier();
  if (!is_last()) {
    stall_detector.still_waiting("averaging", ranks_, 0.0);
    sleep_for(2.0);
    EXPECT_NO_THROW(stall_detector.still_waiting("averaging", ranks_, 2.0));
  } else {
    sleep_for(2.1);
  }
  mpi_.barrier();
}

TEST_F(StallDetectorTest, WorkedTimeIsThatOfStepsWithoutWaits) {
  StallDetector stall_detector(mpi_, {});
  const auto worked = [&] { return stall_detector.activities()[mpi_.rank()].worked_seconds; };
  const auto start = Clock::now();
  stall_detector.enter(Phase::data, 0);
  sleep_for(0.02);
  stall_detector.enter(Phase::compute, 0);
  sleep_for(0.1);
  stall_detector.waited(0.06);
  stall_detector.enter(Phase::checkpoint, 1);
  EXPECT_GE(worked(), 0.02 + 0.1 - 0.06);
  EXPECT_LE(worked(), seconds_since(start) - 0.06);
  const double before = worked();
  sleep_for(0.05);
  stall_detector.enter(Phase::data, 1);
  EXPECT_EQ(worked(), before) << "a checkpoint is no part of a step";
}

TEST_F(StallDetectorTest, IsInformedOfEveryWaitOfTheRun) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {});
  mpi_.barrier();
  stall_detector.enter(Phase::compute, 0);
  const auto start = Clock::now();
  if (is_last()) sleep_for(1.0);
  mpi_.barrier();
  const double passed = seconds_since(start);
  stall_detector.enter(Phase::data, 1);
  const double worked = stall_detector.activities()[mpi_.rank()].worked_seconds;
  if (is_last()) {
    EXPECT_GE(worked, 0.99);
  } else {
    EXPECT_LT(worked, passed - 0.4);
  }
  mpi_.barrier();
}

TEST_F(StallDetectorTest, AWaitForOtherHostsAloneEndsAfterATimeAndAHalf) {
  StallDetector stall_detector(mpi_, {.stall_seconds = 1.0, .ends_own_stall = false});
  mpi_.barrier();
  // Begin a second step, so that all ranks have certainly left the phases before the first step.
  stall_detector.enter(Phase::compute, 6);
  stall_detector.enter(Phase::data, 7);
  stall_detector.enter(Phase::compute, 7);
  const std::array<int, 2> elsewhere{mpi_.size(), mpi_.size() + 1};
  const auto start = Clock::now();
  const std::string error = error_of_looks(stall_detector, elsewhere);
  EXPECT_GE(seconds_since(start), 1.4);
  const std::vector<std::string> told = errors_of_all(error);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told.front(), ::testing::HasSubstr(" on other hosts in averaging without a response"));
}

/// The first rank of the other host may still write a checkpoint, and this host cannot know this. So the limit is
/// longer.
TEST_F(StallDetectorTest, AWaitForOtherHostsMayTakeLongerAfterACheckpoint) {
  StallDetector stall_detector(mpi_, {.stall_seconds = 1.0, .ends_own_stall = false});
  mpi_.barrier();
  stall_detector.enter(Phase::checkpoint, 7);
  stall_detector.enter(Phase::data, 7);
  stall_detector.enter(Phase::compute, 7);
  const std::array<int, 1> elsewhere{mpi_.size()};
  EXPECT_NO_THROW(
      repeat_for(long_enough, [&](double seconds) { stall_detector.still_waiting("averaging", elsewhere, seconds); }));
  mpi_.barrier();
}

/// When the run starts, ranks of another host may copy files, which may take longer than a checkpoint. So the limit is
/// the longest one.
TEST_F(StallDetectorTest, AWaitForOtherHostsMayTakeLongestAfterTheStart) {
  StallDetector stall_detector(mpi_, {.stall_seconds = 0.25, .ends_own_stall = false});
  mpi_.barrier();
  stall_detector.enter(Phase::data, 0);
  stall_detector.enter(Phase::compute, 0);
  const std::array<int, 1> elsewhere{mpi_.size()};
  EXPECT_NO_THROW(repeat_for(1.5 * 4 * 0.25 + 0.3,
                             [&](double seconds) { stall_detector.still_waiting("averaging", elsewhere, seconds); }));
  mpi_.barrier();
}

TEST_F(StallDetectorTest, PassesTheLineToTheFunctionThatEndsTheRun) {
  std::string line;
  StallDetector stall_detector(
      mpi_,
      {.stall_seconds = 1.0, .ends_own_stall = false, .end_run = [&](const std::string& given) { line = given; }});
  stall_detector.enter(Phase::compute, 6);
  stall_detector.enter(Phase::data, 7);
  mpi_.barrier();
  const std::string error = error_of_looks(stall_detector, std::array<int, 1>{mpi_.size()});
  EXPECT_EQ(line, error);
  EXPECT_EQ(errors_of_all(line).size(), 1u);
}

/// A rank waits, longer than stall_seconds, for a rank that is alive. Neither of the two ranks hangs, so the detector
/// must end neither.
TEST_F(StallDetectorTest, ARankThatWaitsLongIsNotEnded) {
  if (mpi_.size() == 1) return;
  StallDetector stall_detector(mpi_, {.stall_seconds = 0.8});
  stall_detector.enter(Phase::compute, 7);
  if (is_last()) {
    repeat_for(2.0, [&](double) { stall_detector.heartbeat(); });
  }
  mpi_.barrier();
}

}  // namespace
}  // namespace carillon::testing
