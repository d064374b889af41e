#include "src/cli/options/option_groups.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class TimeLimit : public ::testing::Test {
 protected:
  ~TimeLimit() override { ::unsetenv("SLURM_JOB_END_TIME"); }
  /// Returns the number of seconds from now until the run's stop time.
  double seconds_left() const {
    return std::chrono::duration<double>(stop_time(options_).value() - std::chrono::steady_clock::now()).count();
  }
  void set_job_end(const std::string& text) { ::setenv("SLURM_JOB_END_TIME", text.c_str(), 1); }
  void expect_refused(const std::string& limit, const std::string& words) {
    options_.time_limit = limit;
    const Error error = error_of([&] { stop_time(options_); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }

  CheckpointOptions options_{.time_limit = "1000", .time_margin = 100};
};

TEST_F(TimeLimit, StopsARunByItsMarginEarly) { EXPECT_NEAR(seconds_left(), 900, 1); }

TEST_F(TimeLimit, IsTheEndOfASlurmJob) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  set_job_end(std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count() + 500));
  options_.time_limit = "slurm";
  EXPECT_NEAR(seconds_left(), 400, 2);
}

TEST_F(TimeLimit, IsNoneUnlessGiven) {
  options_.time_limit = "";
  EXPECT_FALSE(stop_time(options_));
}

TEST_F(TimeLimit, ThatIsNoTimeIsRefused) {
  expect_refused("1h", "'1h' is not a whole number of seconds above 0, and not slurm");
  expect_refused("0", "is not a whole number of seconds");
  expect_refused("99999999999999", "is not a whole number of seconds");
  expect_refused("100", "--time-limit 100 must exceed --time-margin 100");
  expect_refused("slurm", "SLURM_JOB_END_TIME is not set");
  set_job_end("soon");
  expect_refused("slurm", "is 'soon'");
}

}  // namespace
}  // namespace carillon::testing
