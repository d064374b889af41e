#include "src/train/diagnosis/replicas.h"

#include <gmock/gmock.h>

#include <cmath>

#include "src/device/cpu_device.h"
#include "tests/support/noise_batch.h"
#include "tests/support/without_shared_host_memory.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> names{"variable a", "variable b"};
const std::vector<std::string> two_hosts{"n0", "n0", "n1", "n1", "n1"};

std::string difference(const std::vector<std::vector<std::uint32_t>>& checksums) {
  return replica_difference(300, names, checksums, two_hosts);
}

TEST(ReplicaDifference, IsNothingWhereAllAreAlike) { EXPECT_EQ(difference({{1, 2}, {1, 2}}), ""); }

TEST(ReplicaDifference, NamesTheFirstArrayAndTheRanksThatTheMajorityIsNotWith) {
  EXPECT_EQ(difference({{1, 2}, {1, 2}, {1, 3}, {1, 2}}),
            "variable b after step 300: rank 2 on n1 differs from the other 3");
  EXPECT_EQ(difference({{1, 2}, {7, 2}, {9, 2}, {1, 2}, {1, 3}}),
            "variable a after step 300: ranks 1, 2 on n0, n1 differ from the other 3");
}

TEST(ReplicaDifference, NamesAllSidesWithoutAMajority) {
  EXPECT_EQ(difference({{1, 2}, {1, 3}}), "variable b after step 300: rank 0 on n0 differs from rank 1 on n0");
  EXPECT_EQ(difference({{1, 2}, {1, 3}, {1, 2}, {1, 3}}),
            "variable b after step 300: ranks 0, 2 on n0, n1 differ from ranks 1, 3 on n0, n1");
  EXPECT_EQ(difference({{1, 2}, {1, 3}, {1, 4}}),
            "variable b after step 300: rank 0 on n0 differs from rank 1 on n0 and from rank 2 on n1");
}

/// Towers after a step, on ranks of which the last can be given other numbers.
class ReplicasTest : public ::testing::Test {
 protected:
  explicit ReplicasTest(std::unique_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
    if (mpi_.rank() == 0) tower_.initialize(1);
    tower_.broadcast_from_first();
    const NoiseBatch samples(static_cast<std::uint64_t>(mpi_.rank()) * 2, 2, 784);
    tower_.step({.step = 0, .batch = samples.batch()});
    tower_.next_result(Results::all);
    mpi_.barrier();  // nobody gathers any more
  }
  ReplicasTest() : ReplicasTest(make_communicator(mpi_world(), device())) {}

  static Device& device() {
    static CpuDevice only(1);
    return only;
  }
  bool is_last() const { return mpi_.rank() == mpi_.size() - 1; }
  /// The error message on rank 0; "a peer failed" on other ranks; empty if all replicas are equal.
  std::string line() const {
    try {
      check_replicas(300, tower_, device(), mpi_);
    } catch (const PeerFailed& peer) {
      return peer.code() == ExitCode::failed ? "a peer failed" : "another code";
    } catch (const SharedError& error) {
      return error.code() == ExitCode::failed ? error.what() : "another code";
    }
    return "";
  }
  std::string expected(const std::string& name) const {
    if (mpi_.size() == 1) return "";  // a rank alone has nobody to compare with
    if (mpi_.rank() > 0) return "a peer failed";
    const std::string& host = mpi_.host();
    if (mpi_.size() == 2)
      return fmt::format("{} after step 300: rank 0 on {} differs from rank 1 on {}", name, host, host);
    return fmt::format("{} after step 300: rank 3 on {} differs from the other 3", name, host);
  }

  const Mpi& mpi_ = mpi_world();
  std::unique_ptr<Communicator> communicator_;
  Tower tower_{mnist_network(mnist_images({.pixel_scale = 1.0f / 255.0f})),
               ten_classes(),
               {.batch_size = 2, .optimizer = {.learning_rate = constant_rate(0.1)}},
               device(),
               *communicator_};
};

class ReplicasWithOwnSlotsTest : public ReplicasTest {
 protected:
  ReplicasWithOwnSlotsTest() : ReplicasTest(std::make_unique<WithoutSharedHostMemory>(device())) {}
};

TEST_F(ReplicasTest, AreAlikeAfterAStep) { EXPECT_EQ(line(), ""); }
TEST_F(ReplicasWithOwnSlotsTest, AreAlikeAfterAStep) { EXPECT_EQ(line(), ""); }

TEST_F(ReplicasTest, OfWhichOneHasAnotherBitAreNamed) {
  float& last = tower_.parameters().value(2).floats().back();  // the last element of a variable counts, too
  if (is_last()) last = std::nextafter(last, 1.0f);
  EXPECT_EQ(line(), expected("variable layer2/weights"));
}

TEST_F(ReplicasWithOwnSlotsTest, CountAverages) {
  const ParameterStore& parameters = tower_.parameters();
  float& first = parameters.slot(parameters.slot_named(moving_average_slot), 1).floats().front();
  if (is_last()) first = std::nextafter(first, 1.0f);
  EXPECT_EQ(line(), expected("moving_average of layer1/biases"));
}

class RunWithAFaultTest : public RunTest {
 protected:
  /// The run ends at `step`, the first comparison of variables, and writes no checkpoint.
  void expect_found_after(std::int64_t step) {
    StallDetector stall_detector(mpi_, {});
    CorruptingCommunicator communicator(device_);
    const Failure failed =
        failure_of_run([&] { Trainer(options_, {}, mpi_, device_, communicator, stall_detector, {}).run(); });
    mpi_.barrier();
    if (mpi_.size() == 1) {
      EXPECT_EQ(failed.code, ExitCode::done);
      return;
    }
    EXPECT_EQ(failed.code, ExitCode::failed);
    EXPECT_THAT(list_checkpoints(train_dir()), IsEmpty());
    if (mpi_.rank() > 0) return;
    EXPECT_THAT(failed.text, HasSubstr(fmt::format("variable layer2/biases after step {}: ", step)));
  }
};

TEST_F(RunWithAFaultTest, EndsAtTheNextComparison) {
  options_.faults.check_replicas = 3;
  options_.checkpoint.checkpoint_every = 0;
  expect_found_after(3);
}

TEST_F(RunWithAFaultTest, EndsBeforeTheNextCheckpoint) {
  options_.faults.check_replicas = 1000;
  options_.checkpoint.checkpoint_every = 2;
  expect_found_after(2);
}

}  // namespace
}  // namespace carillon::testing
