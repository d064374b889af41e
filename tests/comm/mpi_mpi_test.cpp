#include "src/comm/mpi/mpi.h"

#include <gtest/gtest.h>

#include <new>

#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

TEST(Mpi, AllGatherBringsTextsOfDifferentLengthByRank) {
  const Mpi& mpi = mpi_world();
  const auto texts = mpi.all_gather(std::string(static_cast<std::size_t>(mpi.rank()) * 3, 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(mpi.size()));
  for (int rank = 0; rank < mpi.size(); ++rank) EXPECT_EQ(texts[rank].size(), static_cast<std::size_t>(rank) * 3);
}

TEST(Mpi, RunOnAllLetsTheLowestFailingRankReportAndTheOthersKnow) {
  const Mpi& mpi = mpi_world();
  const auto fails_on_last_two = [&] {
    if (mpi.rank() >= mpi.size() - 2) fail(ExitCode::data, "rank {} failed", mpi.rank());
  };
  const int reporter = std::max(0, mpi.size() - 2);
  if (mpi.rank() == reporter) {
    EXPECT_THROW(mpi.run_on_all(fails_on_last_two), SharedError);
  } else {
    EXPECT_THROW(mpi.run_on_all(fails_on_last_two), PeerFailed);
  }
  EXPECT_NO_THROW(mpi.run_on_all([] {}));
  try {
    mpi.run_on_all([] { throw std::bad_alloc(); });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "out of memory");
  } catch (const PeerFailed&) {
    EXPECT_GT(mpi.rank(), 0);
  }
}

TEST(Mpi, EveryRankOfThisHostHasItsOwnLocalRank) {
  const Mpi& mpi = mpi_world();
  EXPECT_EQ(mpi.local_size(), mpi.size());
  EXPECT_EQ(mpi.local_rank(), mpi.rank());
  EXPECT_EQ(mpi.hosts(), std::vector<int>(static_cast<std::size_t>(mpi.size()), 0));
}

TEST(Mpi, SumAddsEveryRanksValuesAndBroadcastBringsTheRoots) {
  const Mpi& mpi = mpi_world();
  std::int64_t values[] = {mpi.rank(), std::int64_t{1} << 40};
  mpi.sum(values);
  EXPECT_EQ(values[0], mpi.size() * (mpi.size() - 1) / 2);
  EXPECT_EQ(values[1], mpi.size() * (std::int64_t{1} << 40));
  for (int root = 0; root < mpi.size(); ++root) {
    be_late(root);
    std::vector<std::int64_t> position(100000, mpi.rank());
    mpi.broadcast(std::as_writable_bytes(std::span(position)), root);
    EXPECT_EQ(position, std::vector<std::int64_t>(100000, root));
  }
}

TEST(Mpi, SendrecvBringsTheBytesOfTheOtherRank) {
  const int rank = mpi_world().rank(), count = mpi_world().size();
  const auto bytes_of = [](int of) { return std::vector<std::byte>(static_cast<std::size_t>(of * 3), std::byte(of)); };
  EXPECT_EQ(mpi_world().sendrecv(bytes_of(rank), (rank + 1) % count, (rank + count - 1) % count),
            bytes_of((rank + count - 1) % count));
  const int mirror = count - 1 - rank;
  EXPECT_EQ(mpi_world().sendrecv(bytes_of(rank), mirror, mirror), bytes_of(mirror));
}

TEST(Mpi, ARankThatIsLateButWithinTheLimitIsWaitedFor) {
  Mpi& mpi = mpi_world();
  mpi.limit_waits({.seconds = 600});
  for (int late = 0; late < mpi.size(); ++late) {
    be_late(late);
    EXPECT_NO_THROW(mpi.barrier());
  }
  mpi.limit_waits({});
}

}  // namespace
}  // namespace carillon::testing
