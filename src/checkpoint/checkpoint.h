// Checkpoint: a training state in one HDF5 file, complete or absent, every flipped bit noticed.
// Format: docs/formats.md.
//
// A file is built in memory (HDF5 core driver, chunked, fletcher32, no times), preceded by a 512-byte user block with
// magic, header version, image length and CRC32C, written to a temporary name, synced, renamed, and the directory
// synced. Loading checks length and CRC before HDF5 sees a byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::uint64_t stream_position = 0;  ///< of the next sample to train on
  std::string options_json;           ///< the run's options, one JSON object
  std::vector<NamedArray> variables;
  std::vector<NamedArray> moving_averages;
  std::map<std::string, std::vector<NamedArray>>
      optimizer;                    ///< slot name -> one array a variable (lookahead: and state)
  std::vector<NamedArray> buffers;  ///< what is not trained: running statistics
};

/// The newest format that is read. Version 1 is without buffers, 2 with them; a file bears the lowest that holds it.
inline constexpr std::int64_t checkpoint_format_version = 2;

/// `train_dir/model.ckpt-<global_step>.h5`.
std::filesystem::path checkpoint_path(const std::filesystem::path& train_dir, std::int64_t global_step);

/// `train_dir/best.ckpt.h5`: the state of a run's best evaluation.
std::filesystem::path best_checkpoint_path(const std::filesystem::path& train_dir);

/// Writes `state` to `path`, replacing it atomically. On an error the old file stays and the temporary is removed.
/// Errors: io (path, cause).
void write_checkpoint(const std::filesystem::path& path, const CheckpointState& state);

inline constexpr std::uint64_t no_size_limit = ~std::uint64_t{0};

/// Arrays come in the order of their names. A file of more than `max_bytes` is not read. Errors: no_input (no such
/// file), data (no plain file, damaged, too large, or of a newer format), io.
CheckpointState read_checkpoint(const std::filesystem::path& path, std::uint64_t max_bytes = no_size_limit);

/// Steps of the checkpoints in `train_dir` by name, newest first; empty when the directory is missing.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& train_dir);

struct LoadedCheckpoint {
  std::filesystem::path path;
  CheckpointState state;
};

/// The newest checkpoint of `train_dir` that loads; each damaged one passed over is told to `warn` in one line.
/// None when there is no checkpoint file at all. Errors: data when there are some and none of them loads or a newer
/// format is met before one that does, io.
std::optional<LoadedCheckpoint> read_newest_checkpoint(const std::filesystem::path& train_dir,
                                                       const std::function<void(const std::string&)>& warn,
                                                       std::uint64_t max_bytes = no_size_limit);

/// What `place` stands for: a checkpoint, or a train directory's newest one that loads. Errors: as read_checkpoint and
/// read_newest_checkpoint; no_input (a directory without one).
LoadedCheckpoint find_checkpoint(const std::string& place, const std::function<void(const std::string&)>& warn,
                                 std::uint64_t max_bytes = no_size_limit);

/// Removes temporaries (`model.ckpt-*.h5.<pid>.tmp`, `best.ckpt.h5.<pid>.tmp`, `metrics.jsonl.<pid>.tmp`) that a killed
/// writer left in `train_dir`.
void remove_stale_temporaries(const std::filesystem::path& train_dir);

/// Which checkpoints of a train directory stay, once that of a step is written. Those of later steps neither count nor
/// go.
struct CheckpointRetention {
  std::int64_t newest = 0;  ///< so many; 0: all
  std::int64_t every = 0;   ///< and those whose step is a multiple of this; 0: no others
};

/// Writes checkpoints on a background thread, one at a time.
class CheckpointWriter {
 public:
  /// Each to the name of its step.
  CheckpointWriter(const std::filesystem::path& train_dir, const CheckpointRetention& retention);
  /// All to one file, in the place of the one before.
  explicit CheckpointWriter(std::filesystem::path file);
  /// Waits for the write in progress; an error that nobody fetched by `wait` is lost.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Starts writing `state`; first waits for the write before it. Throws that one's error. A moved state costs the
  /// caller no copy.
  void start(CheckpointState state);
  /// Starts to write the last state once more, after its write has failed and `wait` has thrown that.
  void start_again();
  /// Whether `wait` would return, or throw, at once.
  bool is_done() const;
  /// Returns when all is on disk. Throws the write's error.
  void wait();

 private:
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

/// HDF5.
LibraryVersion checkpoint_library();

}  // namespace carillon
