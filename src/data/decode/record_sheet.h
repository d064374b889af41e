// Record sheets: what records hold, as a picture to look at.
#pragma once

#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// Up to `count` records from all over the files, in their order, with their labels' names where records.json has them:
/// pictures in JPEG or PNG files, MNIST's and CIFAR-10's. Errors: those of RecordReader; data (a record that holds none
/// of these: file, record, and what is wrong; no records).
Picture record_sheet(const std::vector<std::string>& files, std::size_t count);

}  // namespace carillon
