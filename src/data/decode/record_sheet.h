// Record sheet: one picture that shows a sample of a dataset's images.
#pragma once

#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// Shows up to `count` records, spread over the files, in file order, with class names if records.json has them.
/// Supports JPEG and PNG files and the MNIST and CIFAR-10 formats. Errors: as RecordReader; data (a record of another
/// format, with file, record and cause; no records).
Picture record_sheet(const std::vector<std::string>& files, std::size_t count);

}  // namespace carillon
