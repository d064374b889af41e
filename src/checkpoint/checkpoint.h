// Checkpoint: a training state in one HDF5 file. The file is complete or absent, and loading detects any flipped bit.
// Format: docs/developer-guide/file-formats.md.
//
// HDF5 builds the bytes of an HDF5 file in memory: the HDF5 image (core driver, chunks with fletcher32 checksums, no
// time stamps). A 512-byte header (HDF5's user block) precedes the image. The header contains magic, header version,
// image length and CRC32C. The file is written under a temporary name, synced and renamed, and the directory is synced.
// Loading checks length and CRC before HDF5 reads a byte of the image.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/error.h"

namespace carillon {

/// A float32 array with TensorFlow's name and shape, row-major: {"layer1/weights", {784, 500}, values}.
struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct CheckpointState {
  std::string model;             ///< name of the network, for example "mnist"
  std::int64_t global_step = 0;  ///< number of updates that the run has applied
  std::uint64_t seed = 0;
  std::uint64_t stream_position = 0;  ///< stream position of the next training sample
  std::string options_json;           ///< options of the run, one JSON object
  std::string network = {};           ///< description of the network (carillon/graph/network_description.h)
  std::vector<NamedArray> variables;
  std::vector<NamedArray> moving_averages;
  std::map<std::string, std::vector<NamedArray>>
      optimizer;                    ///< slot name -> one array per variable (lookahead: also one per buffer)
  std::vector<NamedArray> buffers;  ///< arrays that are not trained, such as running statistics
};

/// The format version. Checkpoints of other versions are refused.
inline constexpr std::int64_t checkpoint_format_version = 4;

/// `train_dir/model.ckpt-<global_step>.h5`.
std::filesystem::path checkpoint_path(const std::filesystem::path& train_dir, std::int64_t global_step);

/// `train_dir/best.ckpt.h5`: the state of the best evaluation of a run.
std::filesystem::path best_checkpoint_path(const std::filesystem::path& train_dir);

/// Writes `state` to `path`, and replaces an old file atomically. Pass a large state with std::move, so that this
/// function can free its arrays while the file grows. On an error the old file stays, and the temporary file is
/// removed. Errors: io (path, cause).
void write_checkpoint(const std::filesystem::path& path, CheckpointState state);

inline constexpr std::uint64_t no_size_limit = ~std::uint64_t{0};

/// The error for an intact checkpoint that programs do not load. The checkpoint has another format version, or it is
/// larger than the caller's limit and probably belongs to another network. A program must not load an older checkpoint
/// instead. Exit code: data.
class RefusedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// Reads a checkpoint. Arrays are sorted by name. Errors: no_input (the file does not exist), data (the file is not a
/// regular file or is damaged), RefusedCheckpoint (the checkpoint has another format version or is larger than
/// `max_bytes`), io.
CheckpointState read_checkpoint(const std::filesystem::path& path, std::uint64_t max_bytes = no_size_limit);

/// Returns the steps of the checkpoints in `train_dir`, newest first. Returns an empty vector if the directory is
/// missing.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& train_dir);

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointState state;
};

/// Reads the newest checkpoint of `train_dir` that can be loaded. Skips damaged checkpoints, and calls `warn` with one
/// line for each of them. If another run removes a checkpoint before this function opens it, lists the directory again.
/// Returns nullopt if there is no checkpoint file. Errors: data (no checkpoint loads), RefusedCheckpoint (a refused
/// checkpoint is newer than all checkpoints that load, or the step in its name differs from the step in its contents),
/// io.
std::optional<LoadedCheckpoint> read_newest_checkpoint(const std::filesystem::path& train_dir,
                                                       const std::function<void(const std::string&)>& warn,
                                                       std::uint64_t max_bytes = no_size_limit);

/// Reads the checkpoint file `place`. If `place` is a train directory, reads its newest checkpoint. Errors: see
/// read_checkpoint and read_newest_checkpoint; no_input (the directory has no checkpoint).
LoadedCheckpoint find_checkpoint(const std::string& place, const std::function<void(const std::string&)>& warn,
                                 std::uint64_t max_bytes = no_size_limit);

/// Removes the temporary files `<name>.<digits>.tmp` that a killed writer left in `train_dir`. `<name>` is the name of
/// a checkpoint, best.ckpt.h5 or metrics.jsonl.
void remove_stale_temporaries(const std::filesystem::path& train_dir);

/// The checkpoints that stay after a new checkpoint is written. The rule neither counts nor removes checkpoints of
/// steps after the new checkpoint.
struct CheckpointRetention {
  std::int64_t newest = 0;  ///< number of newest checkpoints to keep; 0: keep all
  std::int64_t every = 0;   ///< also keep checkpoints of steps that are multiples of this number; 0: none
};

/// How a CheckpointWriter retries failed writes.
struct CheckpointRetries {
  std::int64_t max_failures = 0;       ///< the writer gives up if more than this number of writes in a row fail
  std::string limit_name = "at most";  ///< text before max_failures in a warning: "at most", or the name of the option
                                       ///< that sets it
  std::function<void(const std::string&)> warn = [](const std::string& /*line*/) {};  ///< receives one line per warning
};

/// Writes checkpoints on a background thread, one at a time, and retries failed writes.
///
/// If a write fails, the writer warns, and writes the same state again after 1 s. The next pauses are 2 s, 4 s and so
/// on, up to a minute. If a newer state arrives, it replaces the old state. After more than `max_failures` failures in
/// a row it gives up. If a state cannot be encoded as a file, each retry fails for the same reason.
class CheckpointWriter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Writes each checkpoint to the file that checkpoint_path names for its step.
  CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention,
                   CheckpointRetries retries = {});
  /// Writes all checkpoints to one file. Each checkpoint replaces the previous one.
  explicit CheckpointWriter(std::filesystem::path file, CheckpointRetries retries = {});
  /// Waits for the write in progress. An error that `finish` has not thrown is lost.
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) noexcept;

  /// Waits for the previous write, then starts to write `state`. Move the state to avoid a copy.
  void start(CheckpointState state);
  /// If the last write has ended, records its success or failure. If a retry of a failed write is due, starts the
  /// retry.
  void poll(Clock::time_point now = Clock::now());
  /// True if a write has no result yet.
  bool is_writing() const { return is_writing_; }
  /// Returns the error after which the writer gave up, or nullopt if it has not given up.
  const std::optional<Error>& given_up() const { return given_up_; }
  /// Waits until the last state is on disk. If a write fails, writes the state again after a second. If the writer
  /// gives up, throws the error of the last write.
  void finish();
  /// Returns the step of the newest checkpoint that this writer has completed, or -1 if it has completed no checkpoint.
  /// Any thread and any signal handler may call this.
  std::int64_t newest_complete() const;

 private:
  struct Worker;

  void begin_write();
  /// Waits for the write in progress and records its success or failure. `max_pause`: the longest time until a failed
  /// checkpoint is written again.
  void take_result(Clock::time_point now, std::chrono::seconds max_pause);

  CheckpointRetries retries_;
  std::unique_ptr<Worker> worker_;
  bool is_writing_ = false;  ///< true: a write has no result yet
  std::int64_t failures_ = 0;
  std::optional<Error> failed_;  ///< the error of the last write, which will be retried
  std::optional<Error> given_up_;
  Clock::time_point retry_at_;
};

/// Returns the version of HDF5.
std::string checkpoint_library();

}  // namespace carillon
