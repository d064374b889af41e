#include "carillon/comm/watch.h"

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

/// Calls body(seconds since the first call) over and over for so long.
template <typename Body>
void repeat_for(double seconds, const Body& body) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds; sleep_for(0.02)) body(seconds_since(start));
}

class WatchTest : public ::testing::Test {
 protected:
  /// The rank that the others wait for, and whether this is it.
  int last() const { return mpi_.size() - 1; }
  bool is_last() const { return mpi_.rank() == last(); }

  /// What this rank's looks end in while the last one does `work`; nothing, when they come to no end.
  template <typename Work>
  std::string looks_while_last(Watch& watch, const Work& work, double seconds = long_enough) {
    watch.enter(Phase::compute, 7);
    mpi_.barrier();
    if (!is_last()) return error_of_looks(watch, ranks_, seconds);
    work();
    return "";
  }

  /// What this rank's looks end in; nothing, when they come to no end.
  std::string error_of_looks(Watch& watch, std::span<const int> ranks, double longest = long_enough) const {
    try {
      repeat_for(longest, [&](double seconds) { watch.look("averaging", ranks, seconds); });
    } catch (const Error& error) {
      return error.code() == ExitCode::failed ? error.what() : "another exit code";
    }
    return "";
  }

  /// The errors, each of a rank, that there are.
  std::vector<std::string> errors_of_all(const std::string& own) {
    std::vector<std::string> all = mpi_.all_gather(own);
    std::erase(all, "");
    return all;
  }

  Mpi& mpi_ = mpi_world();
  std::array<int, 1> ranks_{last()};
  static constexpr double stall = 1.0, long_enough = 1.75;
};

TEST_F(WatchTest, EveryRankSeesWhatTheOthersOfItsHostDo) {
  Watch watch(mpi_, {});
  watch.enter(Phase::evaluation, 100 + mpi_.rank());
  mpi_.barrier();
  const std::vector<RankActivity> all = watch.activities();
  ASSERT_EQ(static_cast<int>(all.size()), mpi_.size());
  for (int rank = 0; rank < mpi_.size(); ++rank) {
    EXPECT_EQ(all[rank].rank, rank);
    EXPECT_EQ(all[rank].phase, Phase::evaluation);
    EXPECT_EQ(all[rank].step, 100 + rank);
    EXPECT_GE(all[rank].seconds_in_phase, 0.0);
    EXPECT_LT(all[rank].seconds_in_phase, 60.0);
  }
  mpi_.barrier();
}

TEST_F(WatchTest, ARankThatStandsStillIsNamedOnceWithWhatItDoes) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const std::string error = looks_while_last(watch, [] { sleep_for(long_enough); });
  const std::vector<std::string> told = errors_of_all(error);
  ASSERT_EQ(told.size(), 1u);
  const std::string rank = "rank " + std::to_string(last());
  EXPECT_THAT(told.front(),
              ::testing::MatchesRegex(rank +
                                      " stands still: it has been in compute of step 7 for [0-9]+ s; this rank "
                                      "has waited for " +
                                      rank + " in averaging for [0-9]+ s"));
}

TEST_F(WatchTest, SaysWhatARankReadsThatStandsStillInTheDataOfAStep) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  watch.describe_data([](int rank, std::int64_t step) { return fmt::format("record {} of rank {}", 10 * step, rank); });
  const auto stand_still = [&] {
    watch.enter(Phase::data, 8);
    sleep_for(long_enough);
  };
  const std::vector<std::string> told = errors_of_all(looks_while_last(watch, stand_still));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told.front(), ::testing::HasSubstr(fmt::format(" s, record 80 of rank {}; this rank has", last())));
}

TEST_F(WatchTest, OfTwoRanksThatStandStillOneIsNamed) {
  if (mpi_.size() <= 2) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  watch.enter(Phase::compute, 7);
  mpi_.barrier();
  std::string error;
  if (mpi_.rank() + 2 >= mpi_.size()) {
    sleep_for(2.0 * long_enough);
  } else {
    error = error_of_looks(watch, ranks_);
    error += error_of_looks(watch, ranks_);  // whoever ended the run, it is not ended again
  }
  EXPECT_EQ(errors_of_all(error).size(), 1u);
}

TEST_F(WatchTest, ARankThatGetsOnIsNotStalled) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const auto get_on = [&] { repeat_for(long_enough, [&](double) { watch.enter(Phase::compute, 7); }); };
  EXPECT_EQ(looks_while_last(watch, get_on), "");
  mpi_.barrier();
}

TEST_F(WatchTest, ARankThatWaitsItselfIsNotStalled) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  const auto wait_too = [&] {
    repeat_for(long_enough, [&](double) { watch.look("averaging", std::array<int, 1>{0}, 0.0); });
  };
  EXPECT_EQ(looks_while_last(watch, wait_too), "");
  mpi_.barrier();
}

TEST_F(WatchTest, PhasesThatAreNoPartOfAStepMayTakeFourTimesAsLong) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = stall, .ends_own_stall = false});
  constexpr double beyond_twice_the_limit = 2.5 * stall;
  const auto save = [&] {
    watch.enter(Phase::checkpoint, 7);
    sleep_for(beyond_twice_the_limit);
  };
  EXPECT_EQ(looks_while_last(watch, save, beyond_twice_the_limit), "");
  mpi_.barrier();
}

/// As in a job that was suspended: all clocks went on, and nobody ran.
TEST_F(WatchTest, TimeInWhichTheLookingProcessDidNotRunDoesNotCount) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = 1.5, .ends_own_stall = false});
  watch.enter(Phase::compute, 7);
  mpi_.barrier();
  if (!is_last()) {
    watch.look("averaging", ranks_, 0.0);
    sleep_for(2.0);
    EXPECT_NO_THROW(watch.look("averaging", ranks_, 2.0));
  } else {
    sleep_for(2.1);
  }
  mpi_.barrier();
}

TEST_F(WatchTest, WorkedTimeIsThatOfStepsWithoutWaits) {
  Watch watch(mpi_, {});
  const auto worked = [&] { return watch.activities()[mpi_.rank()].worked_seconds; };
  const auto start = Clock::now();
  watch.enter(Phase::data, 0);
  sleep_for(0.02);
  watch.enter(Phase::compute, 0);
  sleep_for(0.1);
  watch.waited(0.06);
  watch.enter(Phase::checkpoint, 1);
  EXPECT_GE(worked(), 0.02 + 0.1 - 0.06);
  EXPECT_LE(worked(), seconds_since(start) - 0.06);
  const double before = worked();
  sleep_for(0.05);
  watch.enter(Phase::data, 1);
  EXPECT_EQ(worked(), before) << "a checkpoint is no part of a step";
}

TEST_F(WatchTest, IsToldOfEveryWaitOfTheRun) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {});
  mpi_.barrier();
  watch.enter(Phase::compute, 0);
  const auto start = Clock::now();
  if (is_last()) sleep_for(1.0);
  mpi_.barrier();
  const double passed = seconds_since(start);
  watch.enter(Phase::data, 1);
  const double worked = watch.activities()[mpi_.rank()].worked_seconds;
  if (is_last()) {
    EXPECT_GE(worked, 0.99);
  } else {
    EXPECT_LT(worked, passed - 0.4);
  }
  mpi_.barrier();
}

TEST_F(WatchTest, AWaitForOtherHostsAloneEndsAfterATimeAndAHalf) {
  Watch watch(mpi_, {.stall_seconds = 1.0, .ends_own_stall = false});
  mpi_.barrier();
  watch.enter(Phase::compute, 6);  // a whole step, in which all have left what was before it
  watch.enter(Phase::data, 7);
  watch.enter(Phase::compute, 7);
  const std::array<int, 2> elsewhere{mpi_.size(), mpi_.size() + 1};
  const auto start = Clock::now();
  const std::string error = error_of_looks(watch, elsewhere);
  EXPECT_GE(seconds_since(start), 1.4);
  const std::vector<std::string> told = errors_of_all(error);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told.front(), ::testing::HasSubstr(" on other hosts in averaging, and heard nothing"));
}

/// The first rank of another host may save a checkpoint; nobody here knows.
TEST_F(WatchTest, AWaitForOtherHostsMayTakeLongerBehindACheckpoint) {
  Watch watch(mpi_, {.stall_seconds = 1.0, .ends_own_stall = false});
  mpi_.barrier();
  watch.enter(Phase::checkpoint, 7);
  watch.enter(Phase::data, 7);
  watch.enter(Phase::compute, 7);
  const std::array<int, 1> elsewhere{mpi_.size()};
  EXPECT_NO_THROW(repeat_for(long_enough, [&](double seconds) { watch.look("averaging", elsewhere, seconds); }));
  mpi_.barrier();
}

TEST_F(WatchTest, GivesTheLineToWhoIsToEndTheRun) {
  std::string line;
  Watch watch(mpi_, {.stall_seconds = 1.0, .ends_own_stall = false, .end_run = [&](const std::string& given) {
                       line = given;
                     }});
  watch.enter(Phase::compute, 6);
  watch.enter(Phase::data, 7);
  mpi_.barrier();
  const std::string error = error_of_looks(watch, std::array<int, 1>{mpi_.size()});
  EXPECT_EQ(line, error);
  EXPECT_EQ(errors_of_all(line).size(), 1u);
}

/// Longer than its own limit: what ends a rank that stands still is not to end one that waits.
TEST_F(WatchTest, ARankThatWaitsLongIsNotEnded) {
  if (mpi_.size() == 1) return;
  Watch watch(mpi_, {.stall_seconds = 0.8});
  watch.enter(Phase::compute, 7);
  if (is_last()) {
    repeat_for(2.0, [&](double) { watch.get_on(); });
  }
  mpi_.barrier();
}

}  // namespace
}  // namespace carillon::testing
