// The checkpoints of a train directory: their names, the search for the newest checkpoint, and the background writer.
#include "src/checkpoint/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint_format.h"
#include "src/core/resources.h"
#include "src/core/text.h"

namespace carillon {
namespace {

constexpr std::string_view prefix = "model.ckpt-";
constexpr std::string_view suffix = ".h5";
constexpr std::string_view best_name = "best.ckpt.h5";

/// Returns the step in a file name that checkpoint_path makes, or nullopt for any other name.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  const auto digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!whole || step < 0 || std::to_string(step) != digits) return std::nullopt;
  return step;
}

/// Calls `visit(name)` for each entry. A missing directory counts as empty.
template <typename Visit>
void for_each_name(const std::filesystem::path& directory, Visit visit) {
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    visit(entry->path().filename().string());
  }
  if (error) fail(ExitCode::io, "cannot list {}: {}", directory.string(), error.message());
}

/// Lists the checkpoints, and repeats an empty listing. Reason: while a run replaces its only checkpoint, a listing may
/// miss both the old and the new file. `changes`: a checkpoint has disappeared during this search, so a run is
/// replacing checkpoints. If `changes` is true, waits up to about one second for the next checkpoint.
std::vector<std::int64_t> list_while_changing(const std::filesystem::path& train_dir, bool changes) {
  constexpr int max_listings = 10;
  std::vector<std::int64_t> steps;
  for (int listing = 0; listing < max_listings && steps.empty(); ++listing) {
    if (changes && listing > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1 << listing));
    steps = list_checkpoints(train_dir);
  }
  return steps;
}

/// Returns the first element of `steps` that is not in `skipped`. `steps` is sorted from the newest step to the oldest.
std::optional<std::int64_t> newest_but(const std::set<std::int64_t>& skipped, const std::vector<std::int64_t>& steps) {
  const auto found = std::ranges::find_if(steps, [&](std::int64_t step) { return !skipped.contains(step); });
  return found == steps.end() ? std::nullopt : std::optional(*found);
}

/// Removes the checkpoints that `retention` does not keep, after the checkpoint of `newest_step` has been written.
/// Later steps are neither counted nor removed: they belong to another run, or they are damaged and this run skipped
/// them. Errors: io.
void remove_old_checkpoints(const std::filesystem::path& train_dir, std::int64_t newest_step,
                            const CheckpointRetention& retention) {
  if (retention.newest <= 0) return;
  const auto stays = [&](std::int64_t step) { return retention.every > 0 && step % retention.every == 0; };
  std::int64_t newer = 0;
  for (const auto step : list_checkpoints(train_dir)) {
    if (step > newest_step) continue;
    if (newer++ >= retention.newest && !stays(step)) remove_file(checkpoint_path(train_dir, step));
  }
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& train_dir, std::int64_t global_step) {
  return train_dir / fmt::format("{}{}{}", prefix, global_step, suffix);
}

std::filesystem::path best_checkpoint_path(const std::filesystem::path& train_dir) { return train_dir / best_name; }

std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& train_dir) {
  std::vector<std::int64_t> steps;
  for_each_name(train_dir, [&](const std::string& name) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  });
  std::ranges::sort(steps, std::greater{});
  return steps;
}

std::optional<LoadedCheckpoint> read_newest_checkpoint(const std::filesystem::path& train_dir,
                                                       const std::function<void(const std::string&)>& warn,
                                                       std::uint64_t max_bytes) {
  std::set<std::int64_t> vanished, skipped;
  std::vector<std::int64_t> steps;
  std::optional<std::int64_t> next;
  while ((next = newest_but(skipped, steps = list_while_changing(train_dir, !vanished.empty())))) {
    const auto path = checkpoint_path(train_dir, *next);
    try {
      LoadedCheckpoint loaded{.path = path, .state = read_checkpoint(path, max_bytes)};
      if (loaded.state.global_step == *next) return loaded;
      const std::int64_t step = loaded.state.global_step;
      throw RefusedCheckpoint(ExitCode::data, fmt::format("{}: holds step {}: rename it to {}", path.string(), step,
                                                          checkpoint_path(train_dir, step).filename().string()));
    } catch (const RefusedCheckpoint&) {
      throw;  // the checkpoint is intact but refused: a run that resumes from an older checkpoint would lose work
    } catch (const Error& error) {
      // A running training has removed this checkpoint and has already written a newer checkpoint. If the next listing
      // contains this checkpoint again, the name is a dangling symbolic link.
      if (error.code() == ExitCode::no_input && vanished.insert(*next).second) continue;
      if (error.code() != ExitCode::data && error.code() != ExitCode::no_input) throw;
      warn(fmt::format("{}; skipped", error.what()));
      skipped.insert(*next);
    }
  }
  if (steps.empty()) return std::nullopt;
  fail(ExitCode::data, "{}: none of its checkpoints can be loaded ({}; the newest is of step {})", train_dir.string(),
       count_text(steps.size(), "file"), steps.front());
}

LoadedCheckpoint find_checkpoint(const std::string& place, const std::function<void(const std::string&)>& warn,
                                 std::uint64_t max_bytes) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return {place, read_checkpoint(place, max_bytes)};
  std::optional<LoadedCheckpoint> newest = read_newest_checkpoint(place, warn, max_bytes);
  if (!newest) fail(ExitCode::no_input, "{}: contains no checkpoint", place);
  return std::move(*newest);
}

void remove_stale_temporaries(const std::filesystem::path& train_dir) {
  const auto ours = [](std::string_view base) {
    return step_of(base).has_value() || base == best_name || base == "metrics.jsonl";
  };
  std::vector<std::string> stale;
  for_each_name(train_dir, [&](const std::string& name) {
    if (is_temporary_name(name, ours)) stale.push_back(name);
  });
  for (const auto& name : stale) remove_file(train_dir / name);
}

struct CheckpointWriter::Worker {
  std::function<void(std::int64_t step, std::span<const std::byte> bytes)> write_bytes;
  std::optional<CheckpointState> state{};  ///< the state to encode
  std::int64_t step = -1;
  std::vector<std::byte> bytes{};       ///< contents of the file of the last state; empty after the file has been
                                        ///< written
  std::exception_ptr encoding_error{};  ///< error that the encoding of the last state threw; null: no error
  std::atomic<std::int64_t> newest_complete{-1};
  std::future<void> write{};  ///< the write in progress; the destructor waits until it ends

  void start() {
    write = std::async(std::launch::async, [this] { run(); });
  }
  bool is_done() const { return write.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Encodes `state` into `bytes` and frees the state. First frees the earlier contents of `bytes` if they were not
  /// written.
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

namespace {

constexpr std::chrono::seconds first_pause{1}, longest_pause{60};

std::chrono::seconds pause_after(std::int64_t failures, std::chrono::seconds longest) {
  constexpr std::int64_t max_doublings = 6;  // 2^6 s is longer than longest_pause
  return std::min(longest, first_pause * (1 << std::min(failures - 1, max_doublings)));
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention,
                                   CheckpointRetries retries)
    : retries_(std::move(retries)),
      worker_(new Worker{[train_dir, retention](std::int64_t step, std::span<const std::byte> bytes) {
        write_file_atomically(checkpoint_path(train_dir, step), bytes);
        remove_old_checkpoints(train_dir, step, retention);
      }}) {}

CheckpointWriter::CheckpointWriter(std::filesystem::path file, CheckpointRetries retries)
    : retries_(std::move(retries)),
      worker_(new Worker{[file = std::move(file)](std::int64_t /*step*/, std::span<const std::byte> bytes) {
        write_file_atomically(file, bytes);
      }}) {}

CheckpointWriter::~CheckpointWriter() = default;
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;

void CheckpointWriter::start(CheckpointState state) {
  if (is_writing_) take_result(Clock::now(), longest_pause);
  worker_->state = std::move(state);
  begin_write();
}

void CheckpointWriter::begin_write() {
  failed_.reset();
  worker_->start();
  is_writing_ = true;
}

void CheckpointWriter::poll(Clock::time_point now) {
  if (is_writing_ && worker_->is_done()) take_result(now, longest_pause);
  if (failed_ && !given_up_ && now >= retry_at_) begin_write();
}

void CheckpointWriter::take_result(Clock::time_point now, std::chrono::seconds max_pause) {
  is_writing_ = false;
  try {
    worker_->write.get();
    failures_ = 0;
  } catch (const Error& error) {
    failed_ = error;
    if (++failures_ > retries_.max_failures) {
      if (!given_up_) given_up_ = error;
      return;
    }
    const std::chrono::seconds pause = pause_after(failures_, max_pause);
    retry_at_ = now + pause;
    retries_.warn(fmt::format("{}; next attempt in {} s (failure {} of {} {} in a row)", error.what(), pause.count(),
                              failures_, retries_.limit_name, retries_.max_failures));
  }
}

void CheckpointWriter::finish() {
  for (;;) {
    if (is_writing_) take_result(Clock::now(), first_pause);  // a short pause, because the run waits here
    if (!failed_) return;
    if (failures_ > retries_.max_failures) throw Error(*failed_);
    std::this_thread::sleep_for(first_pause);
    begin_write();
  }
}

std::int64_t CheckpointWriter::newest_complete() const { return worker_->newest_complete; }

}  // namespace carillon
