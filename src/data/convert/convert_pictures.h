// Conversion of a folder or list of pictures to TFRecord files: tfrecord_convert images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/data/convert/picture_records.h"

namespace carillon {

struct PictureConversionOptions {
  PictureConversion conversion;
  std::optional<Colour> background;  ///< empty: that of the records in the output, or white
  std::string split = "train";
  bool names_split = false;  ///< `split` was given by the user: other splits in the output stay
  bool overwrites = false;   ///< a split that the user named may exist
  double validation_share = 0.0;
  std::uint64_t seed = 1;
  std::filesystem::path targets;     ///< CSV file with the targets (list_targets); empty: the folders are the classes
  std::optional<TargetKind> target;  ///< kind of the targets; empty: as list_targets finds it
};

/// Where a conversion reports what it does.
struct ConversionReports {
  std::function<void(const std::string&)> note, warn;  ///< a line about the input, a line about a problem
  /// Returns the function to call with the number of records that are done, of `count` records of a split.
  std::function<std::function<void(std::size_t)>(const std::string& split, std::size_t count)> progress;
};

struct ConvertedPictures {
  struct Split {
    std::string name;
    WrittenSplit written;
  };
  std::vector<Split> splits;
  TargetKind target = TargetKind::class_index;
  std::size_t class_count = 0, skipped = 0;  ///< classes, labels or numbers; damaged pictures
};

/// Classes with fewer pictures to train on are reported.
inline constexpr std::size_t few_pictures = 10;

/// Checks that a folder with one folder per class, or the first of its split folders, has at least two classes. Errors:
/// data (fewer); as list_pictures.
void check_class_folders(const std::filesystem::path& input);

/// Converts `input`: a folder with one folder per class, a folder of split folders (find_split_folders), a list file
/// or, with PictureConversionOptions::targets, the folder of the pictures. Writes all splits or none. Errors: usage;
/// no_input, data, io, naming the file.
ConvertedPictures convert_pictures(const PictureConversionOptions& options, const std::filesystem::path& input,
                                   const std::filesystem::path& output, const ConversionReports& reports);

}  // namespace carillon
