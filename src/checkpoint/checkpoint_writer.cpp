// CheckpointWriter: one background write at a time, then retention.
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/checkpoint_bytes.h"
#include "src/checkpoint/checkpoint_directory.h"
#include "src/core/memory.h"

namespace carillon {

struct CheckpointWriter::Worker {
  std::function<void(std::int64_t step, std::span<const std::byte> bytes)> write_bytes;
  std::optional<CheckpointState> state{};  ///< to be encoded
  std::int64_t step = -1;
  std::vector<std::byte> bytes{};       ///< file of the last state, until it is written
  std::exception_ptr encoding_error{};  ///< of the last state, of which no file can be made
  std::atomic<std::int64_t> newest_complete{-1};
  std::future<void> write{};  ///< its destructor waits

  void start() {
    write = std::async(std::launch::async, [this] { run(); });
  }
  /// Makes the file of `state`, and frees both the state and a file that could not be written.
  void encode() {
    CheckpointState taken = std::move(*state);
    state.reset();
    free_memory(bytes);
    step = taken.global_step;
    encoding_error = nullptr;
    try {
      bytes = encode_checkpoint(std::move(taken));
    } catch (...) {
      encoding_error = std::current_exception();
    }
  }
  void run() {
    if (state) encode();
    if (encoding_error) std::rethrow_exception(encoding_error);
    write_bytes(step, bytes);
    newest_complete = step;
    free_memory(bytes);
  }
};

CheckpointWriter::CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention)
    : worker_(new Worker{[train_dir, retention](std::int64_t step, std::span<const std::byte> bytes) {
        write_file_atomically(checkpoint_path(train_dir, step), bytes);
        remove_old_checkpoints(train_dir, step, retention);
      }}) {}

CheckpointWriter::CheckpointWriter(std::filesystem::path file)
    : worker_(new Worker{[file = std::move(file)](std::int64_t /*step*/, std::span<const std::byte> bytes) {
        write_file_atomically(file, bytes);
      }}) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::start(CheckpointState state) {
  wait();
  worker_->state = std::move(state);
  worker_->start();
}

void CheckpointWriter::start_again() {
  wait();
  check(!worker_->bytes.empty() || worker_->encoding_error, "no checkpoint has failed");
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
