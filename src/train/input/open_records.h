// Records: how training and evaluation open the data set that a program is for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carillon/data/dataset.h"
#include "carillon/data/record_form.h"
#include "carillon/options/data_options.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

struct RecordOptions {
  std::string image_key, label_key;  ///< features of a record; empty: the form's
  CacheMode cache = CacheMode::automatic;
  std::string stage;                        ///< directory of each host to which files are copied first; empty: none
  bool by_file = false;                     ///< each rank reads its own files (file_share)
  std::function<void()> heartbeat = [] {};  ///< called now and then while files are copied
};

/// Part of each line of a run on synthetic images (is_synthetic).
inline constexpr const char* synthetic_note = " [synthetic data]";

/// Collective. The records that `patterns` name, of this form; where they are in their files is found out together.
/// Errors: those of Dataset::open, stage_files and share_index; usage (ranks that see different files).
Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi);

}  // namespace carillon
