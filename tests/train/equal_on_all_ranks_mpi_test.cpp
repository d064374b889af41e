#include "src/train/control/agreement.h"

#include <gmock/gmock.h>

#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

TEST(Agreement, HoldsWhereAllRanksHaveTheSame) {
  EXPECT_NO_THROW(require_equal_on_all_ranks(mpi_world(), {{"seed", 1}, {"data", std::vector<std::string>{"a", "b"}}}));
}

TEST(Agreement, NamesTheSettingAndTheRankThatDiffer) {
  const Mpi& mpi = mpi_world();
  if (mpi.size() == 1) return;
  const bool last = mpi.rank() == mpi.size() - 1;
  try {
    require_equal_on_all_ranks(mpi, {{"batch_size", 7}, {"learning_rate", last ? 0.2 : 0.1}});
    ADD_FAILURE() << "ranks that differ were taken to agree";
  } catch (const SharedError& error) {
    EXPECT_EQ(mpi.rank(), 0);
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()),
              fmt::format("ranks disagree on --learning-rate: 0.1 on rank 0, 0.2 on rank {}", mpi.size() - 1));
  } catch (const PeerFailed& peer) {
    EXPECT_NE(mpi.rank(), 0);
    EXPECT_EQ(peer.code(), ExitCode::usage);
  }
}

TEST(Agreement, NamesASettingThatARankLacks) {
  const Mpi& mpi = mpi_world();
  if (mpi.size() == 1) return;
  std::vector<Field> fields{{"seed", 1}};
  if (mpi.rank() == 0) fields.push_back({"training records", 60});
  try {
    require_equal_on_all_ranks(mpi, fields);
    ADD_FAILURE() << "ranks that differ were taken to agree";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("training records: 60 on rank 0, nothing on rank 1"));
  } catch (const PeerFailed&) {
    EXPECT_NE(mpi.rank(), 0);
  }
}

}  // namespace
}  // namespace carillon::testing
