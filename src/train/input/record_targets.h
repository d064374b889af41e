// Record targets: the targets of all training records, for losses and sample orders that depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/tasks/task.h"
#include "src/comm/mpi/mpi.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

struct RecordTargets {
  std::vector<std::uint32_t> records;  ///< ascending record numbers, without damaged records (Dataset::skip_damaged)
  std::vector<std::byte> targets;      ///< [records.size()] of Dataset::target_bytes() each
};

struct TargetReading {
  /// First record of each rank's part, if each rank has its own files (Dataset::shares_of_files). Empty: every rank can
  /// read all records.
  std::vector<std::uint64_t> shares = {};
  int thread_count = 1;                     ///< of each rank
  std::function<void()> heartbeat = [] {};  ///< called regularly
};

/// The targets of all records, equal on all ranks. If the dataset is not in the memory of all ranks, each rank
/// reads a part of the records from the files. Collective. Errors: those of Dataset::read_target; data (all records are
/// damaged).
RecordTargets read_targets(const Dataset& dataset, const TargetReading& reading, const Mpi& mpi);

/// The records of each group that has some, in the order of the groups' numbers.
std::shared_ptr<const RecordGroups> records_by_group(
    const RecordTargets& found, const std::function<std::int64_t(std::span<const std::byte> target)>& group_of);

}  // namespace carillon
