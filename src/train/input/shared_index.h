// Shared index: finds the records of a dataset once for all ranks.
#pragma once

#include <string>
#include <vector>

#include "carillon/data/index_file.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// The index of the plain TFRecord files `paths`, which are equal on all ranks. Rank 0 reads the index files in their
/// directories; each rank indexes a part of the files that these lack. Collective. Errors: those of known_files and
/// index_files.
FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi);

}  // namespace carillon
