// Checkpoint: a training state in one HDF5 file. It is complete or absent, and loading detects any flipped bit.
// Format: docs/developer-guide/file-formats.md.
//
// The HDF5 image is built in memory (core driver, chunked, fletcher32, no times). A 512-byte user block with magic,
// header version, image length and CRC32C precedes it. The file is written under a temporary name, synced and renamed,
// and the directory is synced. Loading checks length and CRC before HDF5 reads a byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/version.h"

namespace carillon {

/// A float32 array with TensorFlow's name and shape, row-major: {"layer1/weights", {784, 500}, values}.
struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct CheckpointState {
  std::string model;             ///< "mnist", ...
  std::int64_t global_step = 0;  ///< updates applied
  std::uint64_t seed = 0;
  std::uint64_t stream_position = 0;  ///< stream position of the next training sample
  std::string options_json;           ///< options of the run, one JSON object
  std::string network = {};           ///< description of the network (carillon/graph/network_description.h)
  std::vector<NamedArray> variables;
  std::vector<NamedArray> moving_averages;
  std::map<std::string, std::vector<NamedArray>>
      optimizer;                    ///< slot name -> one array per variable (lookahead: and per buffer)
  std::vector<NamedArray> buffers;  ///< not trained: running statistics
};

/// The format version. Checkpoints of other versions are refused.
inline constexpr std::int64_t checkpoint_format_version = 3;

/// `train_dir/model.ckpt-<global_step>.h5`.
std::filesystem::path checkpoint_path(const std::filesystem::path& train_dir, std::int64_t global_step);

/// `train_dir/best.ckpt.h5`: the state of the best evaluation of a run.
std::filesystem::path best_checkpoint_path(const std::filesystem::path& train_dir);

/// Writes `state` to `path`, and replaces an old file atomically. Move a large state: its arrays are freed while the
/// file grows. On an error the old file stays, and the temporary file is removed. Errors: io (path, cause).
void write_checkpoint(const std::filesystem::path& path, CheckpointState state);

inline constexpr std::uint64_t no_size_limit = ~std::uint64_t{0};

/// An intact checkpoint that programs do not load: it has another format version, or it is larger than the caller's
/// limit and probably belongs to another network. Loading must not fall back to an older checkpoint. Exit code: data.
class RefusedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// Reads a checkpoint. Arrays are sorted by name. Errors: no_input (no such file), data (not a regular file, damaged),
/// RefusedCheckpoint (another format version, or larger than `max_bytes`), io.
CheckpointState read_checkpoint(const std::filesystem::path& path, std::uint64_t max_bytes = no_size_limit);

/// Steps of the checkpoints in `train_dir`, newest first. Empty if the directory is missing.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& train_dir);

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointState state;
};

/// Reads the newest checkpoint of `train_dir` that loads. Skips damaged checkpoints, and calls `warn` with one line for
/// each of them. If another run removes a checkpoint before this function opens it, lists the directory again. Returns
/// nullopt if there is no checkpoint file. Errors: data (no checkpoint loads), RefusedCheckpoint (a refused checkpoint
/// is newer than all checkpoints that load, or the step in its name differs from the step in its contents), io.
std::optional<LoadedCheckpoint> read_newest_checkpoint(const std::filesystem::path& train_dir,
                                                       const std::function<void(const std::string&)>& warn,
                                                       std::uint64_t max_bytes = no_size_limit);

/// Reads `place`: a checkpoint file, or the newest checkpoint of a train directory. Errors: as read_checkpoint and
/// read_newest_checkpoint; no_input (a directory without a checkpoint).
LoadedCheckpoint find_checkpoint(const std::string& place, const std::function<void(const std::string&)>& warn,
                                 std::uint64_t max_bytes = no_size_limit);

/// Removes the temporary files that a killed writer left in `train_dir`: `<name>.<digits>.tmp`, with the name of a
/// checkpoint, best.ckpt.h5 or metrics.jsonl.
void remove_stale_temporaries(const std::filesystem::path& train_dir);

/// Which checkpoints are kept after writing a new one. Checkpoints of later steps are neither counted nor removed.
struct CheckpointRetention {
  std::int64_t newest = 0;  ///< number of newest checkpoints; 0: all
  std::int64_t every = 0;   ///< also keep steps that are multiples of this; 0: none
};

/// Writes checkpoints on a background thread, one at a time.
class CheckpointWriter {
 public:
  /// Writes each checkpoint to the name of its step.
  CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention);
  /// Writes all checkpoints to one file; each replaces the previous one.
  explicit CheckpointWriter(std::filesystem::path file);
  /// Waits for the write in progress. If `wait` has not thrown its error, the error is lost.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Waits for the previous write, then starts to write `state`. Throws the error of the previous write. Move the state
  /// to avoid a copy.
  void start(CheckpointState state);
  /// Starts to write the last state again. Call it after `wait` has thrown. If the state itself is invalid, the write
  /// fails again for the same reason.
  void start_again();
  /// True if `wait` would return or throw immediately.
  bool is_done() const;
  /// Returns when the checkpoint is on disk. Throws the error of the write.
  void wait();
  /// Step of the newest checkpoint that this writer has completed; -1: none. Any thread and any signal handler may call
  /// this.
  std::int64_t newest_complete() const;

 private:
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

/// The version of HDF5.
LibraryVersion checkpoint_library();

}  // namespace carillon
