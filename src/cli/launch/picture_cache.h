// Picture cache: the records that `carillon train` makes from a folder of pictures. `carillon train` makes them again
// only if the pictures or the options of the conversion have changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "src/cli/launch/training_choice.h"
#include "src/core/file_tools.h"
#include "src/data/convert/picture_folders.h"

namespace carillon {

/// Identifies the pictures of a folder. The file of the targets, if there is one, counts as one of the pictures.
struct PictureIdentity {
  std::string path;  ///< absolute path of the folder
  /// Checksum over the relative path, the size and the modification time of each picture.
  std::string fingerprint;
  /// Checksum over the relative path and the contents of each picture; empty: not computed.
  std::string contents;
};

/// A folder of pictures as the user describes it on the command line.
struct PictureSource {
  std::filesystem::path folder;
  FolderLayout layout = FolderLayout::automatic;
  std::filesystem::path targets = {};     ///< file with the targets (list_targets); empty: the folders are the classes
  std::optional<TargetKind> target = {};  ///< kind of the targets; nullopt: list_targets decides
};

/// The facts about a folder of pictures that `carillon train` needs.
struct PictureFolder : PictureIdentity {
  std::vector<std::filesystem::path> files;  ///< all pictures, and the file of the targets
  std::int64_t count = 0;                    ///< number of pictures in all splits
  std::string text;               ///< for example "3 classes (cat, dog, ship), splits train, test" or "2 numbers (age,
                                  ///< weight)"
  std::filesystem::path targets;  ///< the file of the targets, absolute; empty: there is none
  TargetKind target = TargetKind::class_index;
  std::int64_t training = 0;  ///< number of pictures to train on, before a validation share is held out
  /// True if the folder has training pictures, and separate validation or test pictures with classes.
  bool has_splits = false;
  UsualShape shape;  ///< median shape of a sample of the training pictures
};

/// Finds the pictures of `source` and the facts about them. Errors: no_input (the folder does not exist, or it has no
/// pictures), usage (a path is not UTF-8), io; the errors of find_class_folders and list_targets.
PictureFolder look_through(const PictureSource& source);

/// True if `pictures` and `known` describe the same unchanged folder, or two folders with the same contents. Reads all
/// pictures only if the path of the folder or a modification time has changed, and then sets pictures.contents. Errors:
/// io; stopped (a stop signal arrived).
bool are_unchanged(PictureFolder& pictures, const PictureIdentity& known);

/// The records of a folder of pictures.
struct CachedRecords {
  std::int64_t training = 0, validation = 0, test = 0;  ///< number of pictures in each split

  /// Returns the number of pictures in the split of this name, or 0 if there is no such split.
  std::int64_t of(const std::string& split) const {
    return split == "train" ? training : split == "validation" ? validation : split == "test" ? test : 0;
  }
};

struct Conversion {
  std::filesystem::path data;             ///< folder that receives the records
  std::vector<std::string> options = {};  ///< options of tfrecord_convert images
};

/// Returns the arguments with which tfrecord_convert converts the pictures.
std::vector<std::string> conversion_words(const PictureFolder& pictures, const Conversion& conversion);

/// True if `conversion.data` holds the records that this conversion makes from these pictures. Errors: io.
bool holds_conversion(const PictureIdentity& pictures, const Conversion& conversion);

/// Runs tfrecord_convert. `words`: the words after its name. Returns the exit code; 75: a stop signal arrived.
using Convert = std::function<int(const std::vector<std::string>& words)>;

/// If `conversion.data` already holds the records of the same conversion of unchanged pictures, does nothing. Otherwise
/// converts the pictures. A conversion first reads all pictures once, for the checksum of their contents.
/// `lock`: the lock of `conversion.data`. If the function returns true, the lock is shared, so that no other run
/// replaces the records. Sets pictures.contents. Waits while another run converts pictures into the folder. Returns
/// false if a stop signal arrived. Errors: the exit code of `convert`, which has printed its own message; usage (the
/// folder holds records that no `carillon train` made, or another run uses other records there).
bool convert_if_changed(PictureFolder& pictures, const Conversion& conversion, const FolderLock& lock,
                        const Convert& convert);

/// Returns a pattern that matches the record files of a split in `data`.
std::string records_pattern(const std::filesystem::path& data, const std::string& split);

/// Counts the records. Errors: data, io.
CachedRecords count_records(const std::filesystem::path& data);

}  // namespace carillon
