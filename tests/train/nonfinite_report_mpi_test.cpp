#include <gmock/gmock.h>

#include <limits>

#include "tests/support/without_shared_host_memory.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

/// Returns a network with a batch norm after the image input. If settings.pixel_scale is infinite, the batch norm's
/// input is infinite.
Network network_with_a_norm(const NetworkSettings& settings) {
  const auto layers = [settings](Graph& graph) {
    Value x = image_input(graph, "input", {.sample = {28, 28, 1}, .scale = settings.pixel_scale});
    x = global_avg_pool(graph, "average", conv_norm_relu(graph, "stem", x, {.filters = 4, .stride = 2}));
    return dense(graph, "logits", x, {.units = settings.outputs, .weights = fan_in_uniform(4)});
  };
  return make_network("with_a_norm", settings, layers);
}

/// A communicator that, on the last rank, changes the first value of every broadcast to NaN.
class WithANan final : public WithoutSharedHostMemory {
 public:
  using WithoutSharedHostMemory::WithoutSharedHostMemory;
  void broadcast(std::span<float> values, int root) override {
    WithoutSharedHostMemory::broadcast(values, root);
    if (rank() == size() - 1) values.front() = std::numeric_limits<float>::quiet_NaN();
  }
};

class NonfiniteReportTest : public RunTest {
 protected:
  NonfiniteReportTest() { options_.faults.on_nan = OnNan::report; }
  bool is_last() const { return mpi_.rank() == mpi_.size() - 1; }

  /// Trains on a dataset in which only the last image of the last rank overflows. Expects that this rank's error names
  /// the sample.
  void expect_the_last_sample_named() {
    const int last_record = 4 * mpi_.size() - 1;
    if (mpi_.rank() == 0) {
      std::string records;
      for (int i = 0; i <= last_record; ++i) append_record(records, mnist_example(i == last_record ? 255 : 0, i % 10));
      write_text(directory_ / "one", records);
    }
    mpi_.barrier();
    options_.data.files = {(directory_ / "one").string()};
    options_.data.shuffle = false;
    options_.data.pixel_scale = 1e37;
    const Failure failed = failure(options_);
    EXPECT_EQ(failed.code, ExitCode::failed);
    EXPECT_EQ(failed.text.empty(), !is_last());
    if (failed.text.empty()) return;
    EXPECT_THAT(failed.text, EndsWith(fmt::format("output of op input (image_input), in 1 of the batch's 4 samples: 3 "
                                                  "({}: record {}, label {})",
                                                  (directory_ / "one").string(), last_record, last_record % 10)));
  }
};

TEST_F(NonfiniteReportTest, NamesItsOpAndRecords) {
  options_.optimizer.schedule.learning_rate = 1e25;
  const Failure failed = failure(options_);
  EXPECT_EQ(failed.code, ExitCode::failed);
  EXPECT_THAT(list_checkpoints(train_dir()), IsEmpty());
  if (failed.text.empty()) return;
  EXPECT_THAT(
      failed.text,
      MatchesRegex("Model diverged with loss = .* at step [0-9]+; a replay of the step finds NaN or infinity first "
                   "in the output of op layer[12] \\(dense\\), in [1-4] of the batch's 4 samples: [0-3] "
                   "\\(.*/train: record [0-9]+, label [0-9]\\).*"));
}

TEST_F(NonfiniteReportTest, IsReportedByTheRankThatFoundIt) { expect_the_last_sample_named(); }

/// Sample 3 of the batch is sample 1 of the second micro-batch.
TEST_F(NonfiniteReportTest, InALaterMicroBatchNamesTheSampleOfTheWholeBatch) {
  options_.data.micro_batch = 2;
  expect_the_last_sample_named();
}

/// The batch norm spreads the NaN to all ranks.
TEST_F(NonfiniteReportTest, OfOneBatchNormIsReportedByTheRankThatFoundItFirst) {
  options_.model.make = network_with_a_norm;
  options_.model.sync_batch_norm = true;
  expect_the_last_sample_named();
}

TEST_F(NonfiniteReportTest, OfOneBatchNormIsReportedByTheRankWithTheVariable) {
  options_.model.make = network_with_a_norm;
  options_.model.sync_batch_norm = true;
  StallDetector stall_detector(mpi_, {});
  WithANan communicator(device_);
  const Failure failed =
      failure_of_run([&] { Trainer(options_, {}, mpi_, device_, communicator, stall_detector, {}).run(); });
  EXPECT_EQ(failed.code, ExitCode::failed);
  EXPECT_EQ(failed.text.empty(), !is_last());
  if (is_last()) {
    EXPECT_THAT(failed.text, EndsWith("in the variable logits/biases before the step, in 1 of 10 elements"));
  }
}

TEST_F(NonfiniteReportTest, OfTheL2LossNamesItsVariable) {
  options_.optimizer.regularization = 1e38;
  const Failure failed = failure(options_);
  EXPECT_EQ(failed.code, ExitCode::failed);
  if (mpi_.rank() > 0) return;
  EXPECT_THAT(failed.text, HasSubstr("its L2 part is not: that of variable layer1/weights is "));
}

TEST_F(NonfiniteReportTest, TrainsTheSameWhereItWouldBeTold) {
  train();
  TrainOptions second = options_;
  second.checkpoint.train_dir = (directory_ / "second").string();
  second.faults.on_nan = OnNan::stop;
  train(second);
  EXPECT_TRUE(read_checkpoint(checkpoint_path(second.checkpoint.train_dir, 12)).variables == saved(12).variables);
}

}  // namespace
}  // namespace carillon::testing
