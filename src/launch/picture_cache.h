// Picture cache: the records that `carillon train` makes from a folder of pictures. They are made again only if the
// pictures or the conversion changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/launch/folder_lock.h"
#include "src/processes/child_process.h"

namespace carillon {

/// What `carillon train` finds in a folder of pictures.
struct PictureFolder {
  std::string path;           ///< absolute
  std::int64_t count = 0;     ///< pictures of all splits
  std::int64_t training = 0;  ///< pictures to train on, before a validation share is held out
  bool has_splits = false;    ///< it contains train/ and test/ or val/
  std::int64_t side = 0;      ///< usual length of the shorter side in pixels, from some training pictures; 0: unknown
  std::string fingerprint;    ///< checksum over the paths, sizes and modification times of all pictures
};

/// Errors: no_input (no such folder, no pictures), usage (a path that is not UTF-8), io.
PictureFolder look_through(const std::filesystem::path& folder);

/// The records of a folder of pictures.
struct CachedRecords {
  std::int64_t training = 0, validation = 0, test = 0;  ///< pictures in each split

  /// Pictures in the split of this name; 0 if there is no such split.
  std::int64_t of(const std::string& split) const {
    return split == "train" ? training : split == "validation" ? validation : split == "test" ? test : 0;
  }
};

struct Conversion {
  std::filesystem::path data;             ///< folder for the records
  std::vector<std::string> options = {};  ///< of tfrecord_convert images
};

/// The command that converts the pictures.
std::vector<std::string> conversion_command(const PictureFolder& pictures, const Conversion& conversion);

/// Whether `conversion.data` holds the records of this conversion of these pictures. Errors: io.
bool holds_conversion(const PictureFolder& pictures, const Conversion& conversion);

/// Converts the pictures unless `conversion.data` holds the records of the same conversion of unchanged pictures.
/// `lock`: of that folder; it is shared afterwards, so that no other run replaces the records. Returns false if a stop
/// signal arrived. Errors: those of tfrecord_convert, which has printed its message; usage (the folder holds records of
/// something else, or another run uses them).
bool convert_if_changed(const PictureFolder& pictures, const Conversion& conversion, const FolderLock& lock);

/// A pattern of the record files of a split in `data`.
std::string records_pattern(const std::filesystem::path& data, const std::string& split);

/// Counts the records. Errors: data, io.
CachedRecords count_records(const std::filesystem::path& data);

}  // namespace carillon
