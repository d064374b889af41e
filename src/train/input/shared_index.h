// Shared index: where the records of a set are, found out once for all ranks.
#pragma once

#include <string>
#include <vector>

#include "carillon/data/index_file.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Collective. Of the plain TFRecord files `paths`, the same on all ranks: rank 0 reads the index files beside them,
/// and what those do not know each rank finds out of a part of the files. Errors: those of known_files and index_files.
FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi);

}  // namespace carillon
