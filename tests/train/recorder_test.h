// RecorderTest: a recorder and a tower of MNIST's network on each rank.
#pragma once

#include "src/train/loop/recorder.h"
#include "tests/train/run_test.h"

namespace carillon::testing {

/// Every rank records to its own directory, to test the files of each rank.
class RecorderTest : public RunTest {
 protected:
  RecorderTest() {
    options_.checkpoint.train_dir = (directory_ / fmt::format("of rank {}", mpi_.rank())).string();
    if (first()) tower_.initialize(1);
    tower_.broadcast_from_first();
  }
  bool first() const { return mpi_.rank() == 0; }
  /// The last line of metrics.jsonl.
  nlohmann::json last_metrics() const {
    const std::string text = read_text(train_dir() / "metrics.jsonl");
    const auto begin = text.find_last_of('\n', text.size() - 2);
    return nlohmann::json::parse(text.substr(begin == text.npos ? 0 : begin + 1));
  }

  RunDescription description_;
  std::unique_ptr<Communicator> communicator_ = make_communicator(mpi_, device_);
  Tower tower_{mnist_network(mnist_images()), ten_classes(), {.batch_size = 4}, device_, *communicator_};
  Task task_ = accuracy_task();
  Recorder recorder_{options_, task_, description_, mpi_};
};

}  // namespace carillon::testing
