// CheckpointWriter: one background write at a time, then retention.
#include <future>
#include <utility>

#include "carillon/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_directory.h"

namespace carillon {

struct CheckpointWriter::Worker {
  std::filesystem::path train_dir;
  int keep_count;
  std::future<void> write{};  ///< its destructor waits

  void run(const CheckpointState& state) const {
    write_checkpoint(checkpoint_path(train_dir, state.global_step), state);
    remove_old_checkpoints(train_dir, state.global_step, keep_count);
  }
};

CheckpointWriter::CheckpointWriter(std::filesystem::path train_dir, int keep_count)
    : worker_(std::make_unique<Worker>(std::move(train_dir), keep_count)) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::start(CheckpointState state) {
  wait();
  worker_->write =
      std::async(std::launch::async, [worker = worker_.get(), owned = std::move(state)] { worker->run(owned); });
}

void CheckpointWriter::wait() {
  if (worker_->write.valid()) worker_->write.get();
}

}  // namespace carillon
