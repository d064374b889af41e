#include "src/cli/launch/mpi_main.h"

#include <gmock/gmock.h>

#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class MpiMain : public ProgramFixture {
 protected:
  /// tests/cli/own_failure.cpp on two ranks.
  static Outcome own_failure(const std::string& how) {
    return run("own_failure " + how, "mpirun --allow-run-as-root --oversubscribe -np 2 ");
  }
};

TEST_F(MpiMain, EndsRanksThatWaitForOneWithAnErrorOfItsOwn) {
  const Outcome outcome = own_failure("alone");
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr("own_failure: rank 1 on "));
  EXPECT_THAT(outcome.output, HasSubstr(": a record is damaged\n"));
}

TEST_F(MpiMain, LetsRanksThatKnowOfAnErrorLeaveByThemselves) {
  const Outcome outcome = own_failure("together");
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr(": a record is damaged\n"));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("MPI_ABORT")));
}

}  // namespace
}  // namespace carillon
