// The records that a training or an evaluation reads. The ranks copy the files of the records to each host (staging),
// open them, and read the records in the order of the training.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "carillon/tasks/task.h"
#include "src/comm/mpi/mpi.h"
#include "src/data/loading/batch_loader.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

// Opens the dataset of a training or an evaluation on all ranks. The ranks share the work of finding its records.

/// Returns the index of the plain TFRecord files `paths`. All ranks pass the same paths. Rank 0 reads the index files
/// in the directories of these files. The ranks divide the files that are not in these index files, and each rank
/// indexes its part. Collective. Errors: see known_files and index_files.
FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi);

struct RecordOptions {
  std::string image_key, target_key;  ///< names of the features of a record; empty: the names in the RecordForm
  CacheMode cache = CacheMode::automatic;
  std::string stage;                        ///< directory on each host to which the files are copied before they are
                                            ///< opened; empty: no copies
  bool by_file = false;                     ///< each rank reads its own files (file_share)
  bool skips_damaged = false;               ///< true: the caller will call Dataset::skip_damaged
  std::function<void()> heartbeat = [] {};  ///< called regularly while files are copied
};

/// The text at the end of each log line of a run on synthetic images (is_synthetic).
inline constexpr const char* synthetic_note = " [synthetic data]";

/// Opens the records that `patterns` match. The ranks share the work of finding the records in their files. Collective.
/// Errors: see Dataset::open, stage_files and share_index; usage (the ranks see different files).
Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi);

// TrainingRecords: the records of a training, and the order in which the ranks read them. Also has the loss and the
// sampling that depend on the targets of the records.

/// The targets of all training records, for losses and sample orders that depend on them.
struct RecordTargets {
  std::vector<std::uint32_t> records;  ///< ascending numbers of the records, without damaged records
                                       ///< (Dataset::skip_damaged)
  std::vector<std::byte> targets;      ///< [records.size()] of Dataset::target_bytes() each
};

struct TargetReading {
  /// If each rank has its own files (Dataset::shares_of_files): the first record of each rank's part. Empty: every rank
  /// can read all records.
  std::vector<std::uint64_t> shares = {};
  int thread_count = 1;                     ///< threads of each rank
  std::function<void()> heartbeat = [] {};  ///< called regularly during the work
};

/// Reads the targets of all records. The result is equal on all ranks. If the dataset is not in the memory of all
/// ranks, each rank reads a part of the records from the files. Collective. Errors: see Dataset::read_target; data (all
/// records are damaged).
RecordTargets read_targets(const Dataset& dataset, const TargetReading& reading, const Mpi& mpi);

/// Returns the records of each group, in the order of the groups' numbers. Omits empty groups.
std::shared_ptr<const RecordGroups> records_by_group(
    const RecordTargets& found, const std::function<std::int64_t(std::span<const std::byte> target)>& group_of);

class TrainingRecords {
 public:
  /// Opens the records of `options.data.files`. `records`: how to open the records; this constructor sets by_file and
  /// skips_damaged. If by_file or skips_damaged is true, the constructor also sets cache to none.
  /// `decode_threads`: number of decoding threads of this rank, above 0. Rank 0 warns if the sample order causes many
  /// reads or repeats many records. The referenced objects outlive this object. Collective. Errors: see open_records;
  /// usage (--prefetch-bytes does not suit the records or the host).
  TrainingRecords(const TrainOptions& options, RecordOptions records, int decode_threads, const Mpi& mpi);

  const Dataset& dataset() const { return dataset_; }

  /// Sets everything that depends on the targets of the records: the loss of `task`, and the sample order of --sampling
  /// balanced. Collective. Errors: data.
  void use_targets(Task& task);

  /// Returns a loader of this rank's batches from this position of the sample stream on. This object must outlive the
  /// loader.
  BatchLoader loader_from(std::uint64_t stream_position);

  /// Returns the name of the record at a position of the sample stream, for messages: "train-0, record 17". Any thread
  /// may call it.
  std::string name_at(std::uint64_t stream_position) const;

 private:
  void warn_of_reading() const;
  void check_prefetch_bytes() const;
  PrefetchSettings prefetch() const;

  const TrainOptions& options_;
  const Mpi& mpi_;
  int decode_threads_;
  std::function<void()> heartbeat_;
  OrderSettings order_;
  Dataset dataset_;
};

// Staging: copies data files to the local disk of each host, so that each host reads each file from the shared file
// system once.

struct StagingSettings {
  std::filesystem::path directory;          ///< directory on each host for the copies
  bool by_file = false;                     ///< a host needs only the files of its ranks' shares (file_share)
  std::function<void()> heartbeat = [] {};  ///< called regularly during the work
  /// If another process's incomplete copy has not changed for this time, the process counts as killed.
  std::chrono::seconds age_of_remains = std::chrono::hours(1);
};

/// Returns the numbers of the files that the ranks of `host` read. `hosts`: the host of each rank (Mpi::hosts).
std::vector<std::size_t> files_needed(std::size_t file_count, bool by_file, const std::vector<int>& hosts, int host);

/// Copies the files that the ranks of this host need to <directory><absolute path of the file>; each rank copies some
/// of them. Returns the path of the copy for each copied file, and the given path for every other file. If a copy with
/// the size and modification time of the file exists, it is used again. Therefore a restarted job copies nothing. If
/// the file's directory has an index file, the record positions and checksums of the copy must also match the index.
/// All directories must belong to this user, without links and without write permission for others. Rank 0 prints the
/// progress. Collective. Errors: no_input, io (a file cannot be read or written; there is not enough space, which is
/// checked before the first copy), usage (a directory belongs to another user), data (a file changes during the copy),
/// stopped (a signal arrived; finished copies remain).
std::vector<std::string> stage_files(const std::vector<std::string>& paths, const StagingSettings& settings,
                                     const Mpi& mpi);

// Checks of the files of a training or an evaluation. They run before any file is opened.

/// Checks that no item of `patterns` is a folder. `splits`: prefixes of the names of suitable files. Errors: data; the
/// message suggests files of the folder.
void check_no_folders(const std::vector<std::string>& patterns, std::span<const std::string_view> splits);

/// Checks that no conversion of the records was interrupted (check_conversions_finished) and that no shard is missing
/// (check_shards_exist). --allow-missing-shards disables the second check. Errors: data, no_input.
void check_shards(const DataOptions& data, const std::vector<std::string>& patterns);

/// Warns if the training and the evaluations read the same file.
void warn_of_shared_files(const DataOptions& data);

/// Checks that the files of `patterns` exist, without opening them. Also accepts "synthetic". Errors: no_input.
void check_files_exist(const std::vector<std::string>& patterns);

}  // namespace carillon
