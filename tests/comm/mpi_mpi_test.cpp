#include "carillon/comm/mpi.h"

#include <gtest/gtest.h>

#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

TEST(Mpi, AllGatherBringsTextsOfDifferentLengthByRank) {
  const Mpi& mpi = mpi_world();
  const auto texts = mpi.all_gather(std::string(static_cast<std::size_t>(mpi.rank()) * 3, 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(mpi.size()));
  for (int rank = 0; rank < mpi.size(); ++rank) EXPECT_EQ(texts[rank].size(), static_cast<std::size_t>(rank) * 3);
}

TEST(Mpi, TogetherLetsTheLowestFailingRankReportAndTheOthersKnow) {
  const Mpi& mpi = mpi_world();
  const auto fails_on_last_two = [&] {
    if (mpi.rank() >= mpi.size() - 2) fail(ExitCode::data, "rank {} failed", mpi.rank());
  };
  const int reporter = std::max(0, mpi.size() - 2);
  if (mpi.rank() == reporter) {
    EXPECT_THROW(mpi.together(fails_on_last_two), SharedError);
  } else {
    EXPECT_THROW(mpi.together(fails_on_last_two), PeerFailed);
  }
  EXPECT_NO_THROW(mpi.together([] {}));
}

TEST(Mpi, EveryRankOfThisHostHasItsOwnLocalRank) {
  const Mpi& mpi = mpi_world();
  EXPECT_EQ(mpi.local_size(), mpi.size());
  EXPECT_EQ(mpi.local_rank(), mpi.rank());
}

}  // namespace
}  // namespace carillon::testing
