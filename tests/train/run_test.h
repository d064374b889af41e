// RunTest: a train directory that all ranks share, and a small training in it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "src/comm/allreduce/communicator.h"
#include "src/device/cpu_device.h"
#include "src/train/loop/trainer.h"
#include "tests/data/fixtures.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"

namespace carillon::testing {

/// Returns the failure of a collective call. Each rank gets the exit code; only the rank that reports the failure gets
/// the text.
inline Failure failure_of_run(const std::function<void()>& run) {
  try {
    run();
  } catch (const PeerFailed& peer) {
    return {peer.code(), ""};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    if (mpi_.rank() == 0) {
      own_.emplace();
      write_text(own_->path() / "train", mnist_records(60));
      write_text(own_->path() / "test", mnist_records(20));
    }
    directory_ = mpi_.all_gather(own_ ? own_->path().string() : "").front();
    options_ = {.data = {.files = {(directory_ / "train").string()},
                         .record_form = {.make_decoder = [](RecordSchema schema,
                                                            RecordUse) { return grey_records(std::move(schema)); },
                                         .schema = {.keys = {.image = "image_raw", .label = "label"},
                                                    .image_shape = {.height = 28, .width = 28, .channels = 1},
                                                    .class_count = 10}},
                         .batch_size = 4,
                         .pixel_scale = 1.0 / 255.0},
                .model = {.name = "mnist", .make = mnist_network},
                .task = {.value = ten_classes()},
                .optimizer = {.max_steps = 12, .schedule = {.learning_rate = 0.01, .decay_steps = 10}},
                .checkpoint = {.train_dir = (directory_ / "run").string(), .checkpoint_every = 0},
                .logging = {.log_every = 5, .summary_every = 0}};
  }
  ~RunTest() override { mpi_.barrier(); }

  ExitCode train(const TrainOptions& options, Trainer::Clock::time_point started = Trainer::Clock::now()) {
    StallDetector stall_detector(mpi_, {});
    const auto communicator = make_communicator(mpi_, device_, "auto", {.observer = &stall_detector});
    RunDescription description;
    description.add("seed", options.model.seed, Scope::result);
    return Trainer(options, description, mpi_, device_, *communicator, stall_detector, {}, started).run();
  }
  ExitCode train() { return train(options_); }

  /// Trains, and returns the failure as failure_of_run does.
  Failure failure(const TrainOptions& options) {
    return failure_of_run([&] { train(options); });
  }
  std::filesystem::path train_dir() const { return options_.checkpoint.train_dir; }
  CheckpointState saved(std::int64_t step) const { return read_checkpoint(checkpoint_path(train_dir(), step)); }
  /// Returns the steps of the lines in metrics.jsonl that have a member `name`.
  std::vector<std::int64_t> steps_with(const std::string& name) const {
    std::vector<std::int64_t> steps;
    std::ifstream file(train_dir() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains(name)) steps.push_back(record.at("step"));
    }
    return steps;
  }

  const Mpi& mpi_ = mpi_world();
  CpuDevice device_{1};
  std::optional<TemporaryDirectory> own_;  // has a value on rank 0 only
  std::filesystem::path directory_;        // the same on all ranks
  TrainOptions options_;
};

}  // namespace carillon::testing
