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
  std::map<std::string, std::vector<NamedArray>> optimizer;  ///< slot name -> one array a variable
  std::vector<NamedArray> states;                            ///< what is not trained: running statistics
};

/// The newest format that is read. Version 1 is without states, 2 with them; a file bears the lowest that holds it.
inline constexpr std::int64_t checkpoint_format_version = 2;

/// `train_dir/model.ckpt-<global_step>.h5`.
std::filesystem::path checkpoint_path(const std::filesystem::path& train_dir, std::int64_t global_step);

/// Writes `state` to `path`, replacing it atomically. On an error the old file stays and the temporary is removed.
/// Errors: io (path, cause).
void write_checkpoint(const std::filesystem::path& path, const CheckpointState& state);

/// Arrays come in the order of their names. Errors: no_input (no such file), data (damaged, or of a newer format), io.
CheckpointState read_checkpoint(const std::filesystem::path& path);

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
                                                       const std::function<void(const std::string&)>& warn);

/// Removes temporaries (`model.ckpt-*.h5.<pid>.tmp`, `metrics.jsonl.<pid>.tmp`) that a killed writer left in
/// `train_dir`.
void remove_stale_temporaries(const std::filesystem::path& train_dir);

/// Writes checkpoints of one train directory on a background thread and keeps the newest `keep_count` of them, all when
/// it is 0 or less. Those of later steps than the one just written neither count nor go.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path train_dir, int keep_count);
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

}  // namespace carillon
