// main() of the tests with several ranks. A test passes only if it passes on every rank. Rank 0 prints the failures of
// all ranks.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

Mpi* world = nullptr;

/// Sends the failures of all ranks to rank 0 at the end of every test.
class GatherFailures final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) text_ << result.file_name() << ":" << result.line_number() << ": " << result.message() << "\n";
  }
  void OnTestEnd(const ::testing::TestInfo& /*info*/) override {
    const std::vector<std::string> all = world->all_gather(text_.str());
    text_.str("");
    for (int rank = 1; rank < world->size() && world->rank() == 0; ++rank) {
      if (!all[rank].empty()) ADD_FAILURE() << "on rank " << rank << ": " << all[rank];
    }
    text_.str("");
  }
  std::ostringstream text_;
};

}  // namespace

Mpi& mpi_world() { return *world; }

}  // namespace carillon::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  carillon::Mpi mpi(&argc, &argv);
  carillon::testing::world = &mpi;
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new carillon::testing::GatherFailures);
  const int mine = RUN_ALL_TESTS();
  std::int64_t failed[] = {mine};
  mpi.sum(failed);
  return failed[0] == 0 ? 0 : 1;
}
