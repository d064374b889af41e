// Conversion of a folder or list of pictures to TFRecord files: tfrecord_convert images.
// Format of the records: docs/developer-guide/file-formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "carillon/images/decode.h"
#include "src/data/convert/picture_file.h"
#include "src/data/convert/picture_folders.h"
#include "src/data/convert/picture_list.h"
#include "src/data/convert/shard_writer.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {

struct PictureConversion {
  Colour background = {};           ///< colour behind transparent pixels
  std::int64_t resize_shorter = 0;  ///< limit of the shorter side of a picture, in pixels; if the side is longer, the
                                    ///< picture is reduced to this limit; 0: no limit
  int quality = 95;                 ///< JPEG quality of re-encoded pictures
  bool skip_damaged = false;
  bool reads_copies = false;  ///< use read_picture_or_copy; false if the list of pictures may itself contain the copies
  std::size_t shard_count = 1;
};

/// Called for a picture `i` that cannot be used. Returns true to skip the picture, or false to end the conversion.
using SkipPicture = std::function<bool(std::size_t i, const UnusablePicture& error)>;

/// Writes `pictures`, in their order, as the shards of split `name`. Encodes on all cores of the process. `info`: keys,
/// names and kind of the targets. A record contains the image file without change, with two exceptions. Reduced
/// pictures are re-encoded as JPEG. CMYK pictures are re-encoded as JPEG, too, because many programs treat CMYK as RGB.
/// Pictures that as_jpeg_or_png converts, and transparent pictures with a background that is not white, are re-encoded
/// as PNG. Every picture is decoded completely, to find damage. Calls `progress(done)` from time to time. Errors:
/// UnusablePicture (`skips` does not skip a picture that cannot be used); the errors of make_shards.
CompleteSplit make_picture_shards(const std::string& name, const std::vector<ListedPicture>& pictures,
                                  const DatasetInfo& info, const PictureConversion& conversion,
                                  const std::filesystem::path& directory, const SkipPicture& skips,
                                  const std::function<void(std::size_t)>& progress);

struct PictureConversionOptions {
  PictureConversion conversion;
  /// Colour behind transparent pixels. Nullopt: use the background of the records that are already in the output, or
  /// white if there are none.
  std::optional<Colour> background;
  std::string split = "train";
  bool names_split = false;  ///< true if the user set `split`; in this case, the other splits in the output stay
  bool overwrites = false;   ///< replace the split if it exists; requires that the user set `split`
  double validation_share = 0.0;
  std::uint64_t seed = 1;
  FolderLayout layout = FolderLayout::automatic;
  std::filesystem::path targets;     ///< CSV file with the targets (list_targets); empty: the folders are the classes
  std::optional<TargetKind> target;  ///< kind of the targets; nullopt: list_targets decides
};

/// The functions that receive the reports of a conversion.
struct ConversionReports {
  /// `note` receives lines about the input; `warn` receives lines about problems
  std::function<void(const std::string&)> note, warn;
  /// Called once for each split, which has `count` records. Returns the function that receives the number of records
  /// that are done.
  std::function<std::function<void(std::size_t)>(const std::string& split, std::size_t count)> progress;
};

struct ConvertedPictures {
  struct Split {
    std::string name;
    WrittenSplit written;
  };
  std::vector<Split> splits;
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes;  ///< names of classes, labels or numbers
  std::map<Unusable, std::size_t> skipped;
};

/// A class with fewer training pictures than this causes a warning.
inline constexpr std::size_t few_pictures = 10;

/// The classes and splits of a folder of pictures.
struct ClassFolders {
  std::vector<std::string> classes;
  std::optional<SplitFolders> splits;
};

/// Returns the classes and splits of `input`, a folder of pictures. Errors: data (there are fewer than two classes);
/// the errors of list_pictures and find_split_folders.
ClassFolders find_class_folders(const std::filesystem::path& input, FolderLayout layout);

/// Converts the pictures of `input`. Writes all splits or, after an error, no split. `input` is a folder with one
/// folder per class, a folder of split folders (find_split_folders), or a list file. If
/// PictureConversionOptions::targets is set, `input` is the folder of the pictures. Errors: usage; no_input, data, io
/// (the message names the file).
ConvertedPictures convert_pictures(const PictureConversionOptions& options, const std::filesystem::path& input,
                                   const std::filesystem::path& output, const ConversionReports& reports);

}  // namespace carillon
