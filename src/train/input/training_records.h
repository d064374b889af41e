// TrainingRecords: the records of a training, the order in which the ranks read them, and what depends on their
// targets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "src/comm/mpi/mpi.h"
#include "src/data/loading/batch_loader.h"
#include "src/train/input/open_records.h"

namespace carillon {

class TrainingRecords {
 public:
  /// Opens the records of `options.data.files`. `records`: how to open them; its by_file is set here. `decode_threads`:
  /// of this rank, above 0. Warns on rank 0 of an order that reads or repeats much. The references outlive this.
  /// Collective. Errors: those of open_records; usage (--prefetch-bytes does not suit the records or the host).
  TrainingRecords(const TrainOptions& options, RecordOptions records, int decode_threads, const Mpi& mpi);

  const Dataset& dataset() const { return dataset_; }

  /// Sets what depends on the targets of the records: the loss of `task`, and the order of --sampling balanced.
  /// Collective. Errors: data.
  void use_targets(Task& task);

  /// Loads this rank's batches from this position of the sample stream on. This outlives the loader.
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
