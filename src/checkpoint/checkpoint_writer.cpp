// CheckpointWriter: one background write at a time, then retention.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include "carillon/core/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_directory.h"

namespace carillon {

struct CheckpointWriter::Worker {
  std::function<void(const CheckpointState&)> write_state;
  std::optional<CheckpointState> state{};  ///< state of the last write, until it succeeds
  std::atomic<std::int64_t> newest_complete{-1};
  std::future<void> write{};  ///< its destructor waits

  void start() {
    write = std::async(std::launch::async, [this] { run(); });
  }
  void run() {
    write_state(*state);
    newest_complete = state->global_step;
    state.reset();
  }
};

CheckpointWriter::CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention)
    : worker_(new Worker{[train_dir, retention](const CheckpointState& state) {
        write_checkpoint(checkpoint_path(train_dir, state.global_step), state);
        remove_old_checkpoints(train_dir, state.global_step, retention);
      }}) {}

CheckpointWriter::CheckpointWriter(std::filesystem::path file)
    : worker_(new Worker{[file = std::move(file)](const CheckpointState& state) { write_checkpoint(file, state); }}) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::start(CheckpointState state) {
  wait();
  worker_->state = std::move(state);
  worker_->start();
}

void CheckpointWriter::start_again() {
  wait();
  check(worker_->state.has_value(), "no checkpoint has failed");
  worker_->start();
}

bool CheckpointWriter::is_done() const {
  return !worker_->write.valid() || worker_->write.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void CheckpointWriter::wait() {
  if (worker_->write.valid()) worker_->write.get();
}

std::int64_t CheckpointWriter::newest_complete() const { return worker_->newest_complete; }

}  // namespace carillon
