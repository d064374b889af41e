// Opens the dataset of a training or an evaluation on all ranks. The ranks share the work of finding its records.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "carillon/data/dataset.h"
#include "carillon/data/index_file.h"
#include "carillon/data/record_form.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// The index of the plain TFRecord files `paths`. All ranks pass the same paths. Rank 0 reads the index files in the
/// directories of these files. The ranks divide the files that the index files lack, and each rank indexes its part.
/// Collective. Errors: as known_files and index_files.
FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi);

struct RecordOptions {
  std::string image_key, target_key;  ///< features of a record; empty: as in the form
  CacheMode cache = CacheMode::automatic;
  std::string stage;                        ///< directory on each host to copy the files to first; empty: none
  bool by_file = false;                     ///< each rank reads its own files (file_share)
  bool skips_damaged = false;               ///< the caller will call Dataset::skip_damaged
  std::function<void()> heartbeat = [] {};  ///< called regularly while files are copied
};

/// Ends each log line of a run on synthetic images (is_synthetic).
inline constexpr const char* synthetic_note = " [synthetic data]";

/// Opens the records that `patterns` match. The ranks share the work of finding the records in their files. Collective.
/// Errors: as Dataset::open, stage_files and share_index; usage (ranks see different files).
Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi);

}  // namespace carillon
