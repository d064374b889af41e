// TrainingRecords: the records of a training, the order in which the ranks read them, and the loss and sampling that
// depend on their targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "carillon/tasks/task.h"
#include "src/comm/mpi/mpi.h"
#include "src/data/loading/batch_loader.h"
#include "src/data/loading/sample_order.h"
#include "src/train/input/open_records.h"

namespace carillon {

/// The targets of all training records, for losses and sample orders that depend on them.
struct RecordTargets {
  std::vector<std::uint32_t> records;  ///< ascending record numbers, without damaged records (Dataset::skip_damaged)
  std::vector<std::byte> targets;      ///< [records.size()] of Dataset::target_bytes() each
};

struct TargetReading {
  /// First record of each rank's part, if each rank has its own files (Dataset::shares_of_files). Empty: every rank can
  /// read all records.
  std::vector<std::uint64_t> shares = {};
  int thread_count = 1;                     ///< threads of each rank
  std::function<void()> heartbeat = [] {};  ///< called regularly
};

/// The targets of all records, equal on all ranks. If the dataset is not in the memory of all ranks, each rank reads a
/// part of the records from the files. Collective. Errors: as Dataset::read_target; data (all records are damaged).
RecordTargets read_targets(const Dataset& dataset, const TargetReading& reading, const Mpi& mpi);

/// The records of each group, in the order of the groups' numbers; empty groups are omitted.
std::shared_ptr<const RecordGroups> records_by_group(
    const RecordTargets& found, const std::function<std::int64_t(std::span<const std::byte> target)>& group_of);

class TrainingRecords {
 public:
  /// Opens the records of `options.data.files`. `records`: how to open the records; this constructor sets its by_file.
  /// `decode_threads`: number of decoding threads of this rank, above 0. Rank 0 warns if the sample order causes many
  /// reads or repeats many records. The references outlive this. Collective. Errors: as open_records; usage
  /// (--prefetch-bytes does not suit the records or the host).
  TrainingRecords(const TrainOptions& options, RecordOptions records, int decode_threads, const Mpi& mpi);

  const Dataset& dataset() const { return dataset_; }

  /// Sets the parts that depend on the targets of the records: the loss of `task`, and the sample order of --sampling
  /// balanced. Collective. Errors: data.
  void use_targets(Task& task);

  /// Returns a loader of this rank's batches from this position of the sample stream on. This object must outlive the
  /// loader.
  BatchLoader loader_from(std::uint64_t stream_position);

  /// The record at a position of the stream that loader_from began, for messages: "train-0, record 17". Any thread.
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

}  // namespace carillon
