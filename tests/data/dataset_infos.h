// Writes the description of a dataset, as a conversion does.
#pragma once

#include "src/data/decode/dataset_info.h"
#include "src/data/records/unfinished_conversion.h"

namespace carillon {

inline void write_dataset_info(const std::filesystem::path& directory, const DatasetInfo& info) {
  replace_together(directory, make_dataset_info(directory, info));
}

}  // namespace carillon
