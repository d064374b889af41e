#include "src/train/diagnosis/replica_checks.h"

#include <gmock/gmock.h>

#include <cmath>
#include <ostream>

#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "tests/support/float_arrays.h"
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

/// Has a tower on each rank, after one step. The tests change values of the last rank's tower.
class ReplicasTest : public ::testing::Test {
 protected:
  explicit ReplicasTest(std::unique_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
    if (mpi_.rank() == 0) tower_.initialize(1);
    tower_.broadcast_from_first();
    const NoiseBatch samples(static_cast<std::uint64_t>(mpi_.rank()) * 2, 2, 784);
    tower_.step({.step = 0, .batch = samples.batch()});
    tower_.next_result(Results::all);
    mpi_.barrier();  // waits until no rank gathers any more
  }
  ReplicasTest() : ReplicasTest(make_communicator(mpi_world(), device())) {}

  static Device& device() {
    static CpuDevice only(1);
    return only;
  }
  bool is_last() const { return mpi_.rank() == mpi_.size() - 1; }
  /// Compares the replicas. Returns the error on rank 0, and "a peer failed" on the other ranks. Returns an empty text
  /// if all replicas are equal.
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
    if (mpi_.size() == 1) return "";  // there is no other rank to compare with
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
  float& last = tower_.parameters().value(2).floats().back();  // the last element: comparisons must include it
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
  /// Expects that the run ends at `step`, where variables are compared for the first time, and that it writes no
  /// checkpoint.
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AuditedRanks, ArePreviousRanksCyclically) {
  EXPECT_THAT(audited_ranks(std::vector<std::string>{"a", "a", "a"}), ElementsAre(2, 0, 1));
  EXPECT_THAT(audited_ranks(std::vector<std::string>{"a"}), ElementsAre(0));
}

TEST(AuditedRanks, HaveEqualKeys) {
  EXPECT_THAT(audited_ranks(std::vector<std::string>{"a", "b", "a", "c", "b"}), ElementsAre(2, 4, 0, 3, 1));
}

TEST(AuditDifference, NamesPairsOfRanksAndTheFirstVariable) {
  const std::vector<std::string> variables{"x", "y"}, rank_names{"rank 0 on n0", "rank 1 on n0", "rank 2 on n1"};
  const std::vector<int> audited{2, 0, 1};
  const std::vector<GradientChecksums> in_step{{1, 2}, {3, 4}, {5, 6}};
  const auto text = [&](const std::vector<GradientChecksums>& in_audit) {
    return audit_difference(7, variables, in_step, in_audit, audited, rank_names);
  };
  EXPECT_EQ(text({{5, 6}, {1, 2}, {3, 4}}), "");
  EXPECT_EQ(
      text({{5, 6}, {1, 2}, {3, 9}}),
      "the audit of step 7 failed: rank 1 on n0 and rank 2 on n1 computed different gradients of variable y; check the "
      "processors and the memory of these hosts");
  EXPECT_THAT(
      text({{9, 9}, {1, 9}, {3, 4}}),
      HasSubstr(
          ": rank 2 on n1 and rank 0 on n0 computed different gradients of variable x; rank 0 on n0 and rank 1 on n0 "
          "computed different gradients of variable y; check"));
  EXPECT_THAT(audit_difference(7, variables, std::vector<GradientChecksums>{{1, 2}},
                               std::vector<GradientChecksums>{{1, 3}}, std::vector<int>{0}, rank_names),
              HasSubstr(": rank 0 on n0 computed two different gradients of variable y; "));
}

struct AuditCase {
  std::string name;
  Network network;
  std::int64_t micro_batch = 0;
  bool shares_memory = true;
  OptimizerSettings optimizer = {
      .rule = "momentum", .learning_rate = constant_rate(0.1), .moving_average_decay = 0.5, .lookahead = {.every = 2}};

  friend void PrintTo(const AuditCase& of, std::ostream* out) { *out << of.name; }
};

OptimizerSettings freezing_after_a_step() {
  return {.rule = "momentum",
          .learning_rate = constant_rate(0.1),
          .moving_average_decay = 0.5,
          .groups = {{.pattern = "stem/*", .frozen_after = 1}}};
}

Network synchronized_network() {
  Network network = normalized_network();
  network.sync_batch_norm = true;
  return network;
}

Network network_with_frozen_batch_norms() {
  Network network = normalized_network();
  network.freeze_batch_norm = true;
  return network;
}

OptimizerSettings clipping() {
  return {.rule = "momentum", .learning_rate = constant_rate(0.1), .moving_average_decay = 0.5, .clip_norm = 0.05};
}

class AuditTest : public ::testing::TestWithParam<AuditCase> {
 protected:
  /// A tower with its initial variables, and its device and communicator.
  struct Rank {
    CpuDevice device{1};
    std::unique_ptr<Communicator> communicator;
    Tower tower;

    Rank()
        : communicator(make(device)),
          tower(GetParam().network, task_of(GetParam().network), settings(), device, *communicator) {
      if (mpi_world().rank() == 0) tower.initialize(1);
      tower.broadcast_from_first();
    }
    static std::unique_ptr<Communicator> make(Device& device) {
      const Averaging averaging = averaging_of(settings(), mpi_world().size());
      if (!GetParam().shares_memory) return std::make_unique<WithoutSharedHostMemory>(device, WaitLimit(), averaging);
      return make_communicator(mpi_world(), device, "auto", {}, averaging);
    }
    std::vector<float> state() {
      tower.synchronize_buffers();
      CheckpointState state;
      tower.save(state);
      std::vector<float> all;
      for (const std::vector<NamedArray>* arrays : {&state.variables, &state.moving_averages, &state.buffers}) {
        for (const NamedArray& array : *arrays) all.insert(all.end(), array.values.begin(), array.values.end());
      }
      mpi_world().barrier();  // a rank must not change shared slots that another rank still reads
      return all;
    }
  };

  static TowerSettings settings() {
    return {.batch_size = 4, .micro_batch = GetParam().micro_batch, .optimizer = GetParam().optimizer};
  }
  static NoiseBatch samples_of(std::int64_t step) {
    return {static_cast<std::uint64_t>(4 * (step * mpi_world().size() + mpi_world().rank())), 4,
            GetParam().network.image.bytes()};
  }
};

TEST_P(AuditTest, FindsNothingAndChangesNothing) {
  Rank plain, audited;
  Audit audit(audited.tower, audited.device, mpi_world());
  for (std::int64_t step = 0; step < 3; ++step) {
    const NoiseBatch samples = samples_of(step);
    plain.tower.step({.step = step, .batch = samples.batch()});
    audit.step({.step = step, .batch = samples.batch()});
  }
  EXPECT_TRUE(equal_bits(audited.state(), plain.state()));
}

TEST_P(AuditTest, FindsAVariableThatDiffersOnOneRank) {
  if (mpi_world().size() == 1) return;  // if there is one rank, both results come from the same rank
  Rank one;
  Audit audit(one.tower, one.device, mpi_world());
  mpi_world().barrier();
  float& weight = one.tower.parameters().value(0).floats().front();
  if (mpi_world().rank() == 1) weight += 0.25f;
  const NoiseBatch samples = samples_of(0);
  const Failure failed = failure_of_run([&] { audit.step({.step = 0, .batch = samples.batch()}); });
  EXPECT_EQ(failed.code, ExitCode::failed);
  if (mpi_world().rank() > 0) return;
  EXPECT_THAT(failed.text, HasSubstr("the audit of step 0 failed: rank "));
  EXPECT_THAT(failed.text, HasSubstr("rank 0 on " + mpi_world().host() + " and rank 1 on "));
}

INSTANTIATE_TEST_SUITE_P(
    Networks, AuditTest,
    ::testing::Values(AuditCase{"mixed_samples", mixed_network(), 0, true},
                      AuditCase{"mixed_samples_in_micro_batches", mixed_network(), 2, true},
                      AuditCase{"own_slots", mixed_network(), 0, false},
                      AuditCase{"own_slots_and_micro_batches", normalized_network(), 2, false},
                      AuditCase{"batch_norm", normalized_network(), 0, true},
                      AuditCase{"batch_norm_in_micro_batches", normalized_network(), 2, true},
                      AuditCase{"synchronized_batch_norm", synchronized_network(), 0, true},
                      AuditCase{"frozen_variables", normalized_network(), 0, true, freezing_after_a_step()},
                      AuditCase{"frozen_batch_norm", network_with_frozen_batch_norms(), 0, true},
                      AuditCase{"frozen_batch_norm_in_micro_batches", network_with_frozen_batch_norms(), 2, true},
                      AuditCase{"clipped_gradients", mixed_network(), 0, true, clipping()},
                      AuditCase{"clipped_gradients_in_micro_batches", normalized_network(), 2, true, clipping()},
                      AuditCase{"mirroring_by_record", airbench94_network(cifar10_images()), 0, true}),
    [](const auto& of) { return of.param.name; });

using RunWithAuditsTest = RunTest;

TEST_F(RunWithAuditsTest, EndsAtTheFirstAuditThatFindsADifference) {
  options_.faults.audit = 3;
  options_.faults.check_replicas = 0;
  StallDetector stall_detector(mpi_, {});
  CorruptingCommunicator communicator(device_);
  const Failure failed =
      failure_of_run([&] { Trainer(options_, {}, mpi_, device_, communicator, stall_detector, {}).run(); });
  mpi_.barrier();
  EXPECT_EQ(failed.code, mpi_.size() == 1 ? ExitCode::done : ExitCode::failed);
  EXPECT_EQ(list_checkpoints(train_dir()).size(), mpi_.size() == 1 ? 1 : 0);
  if (mpi_.size() == 1 || mpi_.rank() > 0) return;
  EXPECT_THAT(failed.text, HasSubstr("the audit of step 2 failed: rank "));
}

}  // namespace

}  // namespace carillon::testing
