// Shows records to a user: the names of the pictures from which they were made, and one sheet with their images.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// The feature that holds the picture's name: bytes, one value. tfrecord_convert images and the scripts for ImageNet
/// write it.
inline constexpr const char* picture_name_feature = "image/filename";

/// Returns the picture names of these records (ascending record numbers over all files). A name is empty if the record
/// has no name feature, or if no record has this number. Calls `heartbeat` once per record. Errors: see RecordReader;
/// data (a record is damaged).
std::vector<std::string> picture_names(
    std::span<const std::string> files, std::span<const std::size_t> records,
    const std::function<void()>& heartbeat = [] {});

/// Draws a sheet of up to `count` records, spread over the files, in file order. The sheet has class names if
/// records.json contains them. Supports JPEG and PNG files and the MNIST and CIFAR-10 formats. Errors: see
/// RecordReader; data (a record has another format; there are no records). The message names file, record and cause.
Picture record_sheet(const std::vector<std::string>& files, std::size_t count);

}  // namespace carillon
