// Conversion of a folder or list of pictures to TFRecord files: tfrecord_convert images.
// Format of the records: docs/developer-guide/file-formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "carillon/images/decode.h"
#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

struct PictureConversion {
  Colour background = {};           ///< behind transparent pixels
  std::int64_t resize_shorter = 0;  ///< larger pictures are reduced to this shorter side, in pixels; 0: disabled
  int quality = 95;                 ///< JPEG quality of re-encoded pictures
  bool skip_damaged = false;
  std::size_t shard_count = 1;
};

/// Writes `pictures`, in their order, as the shards of split `name`; encodes on all cores of the process. `info`: keys,
/// names and kind of the targets. A record contains the image file without change, with two exceptions. Reduced
/// pictures and CMYK pictures are re-encoded as JPEG (many programs treat CMYK as RGB). Pictures in formats other than
/// JPEG and PNG, and transparent pictures with a background that is not white, are re-encoded as PNG. Every picture is
/// decoded completely, to find damage. A damaged picture is an error; with skip_damaged, it is reported to `warn` and
/// skipped. Calls `progress(done)` from time to time. Errors: no_input, data, io, naming the file; as make_shards.
CompleteSplit make_picture_shards(const std::string& name, const std::vector<ListedPicture>& pictures,
                                  const DatasetInfo& info, const PictureConversion& conversion,
                                  const std::filesystem::path& directory,
                                  const std::function<void(const std::string&)>& warn,
                                  const std::function<void(std::size_t)>& progress);

struct PictureConversionOptions {
  PictureConversion conversion;
  std::optional<Colour> background;  ///< empty: background of the records in the output, or white
  std::string split = "train";
  bool names_split = false;  ///< `split` was given by the user: other splits in the output stay
  bool overwrites = false;   ///< a split that the user named may exist
  double validation_share = 0.0;
  std::uint64_t seed = 1;
  std::filesystem::path targets;     ///< CSV file with the targets (list_targets); empty: the folders are the classes
  std::optional<TargetKind> target;  ///< kind of the targets; empty: list_targets decides
};

/// The functions that receive the reports of a conversion.
struct ConversionReports {
  std::function<void(const std::string&)> note, warn;  ///< a line about the input, a line about a problem
  /// Called once per split of `count` records. Returns the function that receives the number of records that are done.
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

/// A class with fewer training pictures than this is reported.
inline constexpr std::size_t few_pictures = 10;

/// Checks that `input`, or its first split folder, has at least two classes (one folder per class). Errors: data
/// (fewer); as list_pictures.
void check_class_folders(const std::filesystem::path& input);

/// Converts `input`: a folder with one folder per class, a folder of split folders (find_split_folders), a list file
/// or, with PictureConversionOptions::targets, the folder of the pictures. Writes all splits or none. Errors: usage;
/// no_input, data, io, naming the file.
ConvertedPictures convert_pictures(const PictureConversionOptions& options, const std::filesystem::path& input,
                                   const std::filesystem::path& output, const ConversionReports& reports);

}  // namespace carillon
