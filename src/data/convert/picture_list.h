// Picture lists: the image files of a dataset and their targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "carillon/core/target_spec.h"
#include "src/data/convert/class_names.h"

namespace carillon {

struct ListedPicture {
  std::filesystem::path path;
  std::string name = {};                 ///< path as in the list, or within the folder: "cat/001.jpg"
  std::size_t class_index = 0;           ///< index in PictureList::classes (class_index)
  std::vector<std::size_t> labels = {};  ///< indices in PictureList::classes (labels)
  std::vector<float> numbers = {};       ///< one for each of PictureList::classes (numbers)
};

struct PictureList {
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes = {};  ///< names of classes, labels or numbers
  std::vector<ListedPicture> pictures = {};
  std::size_t passed_over = 0;  ///< number of files in the folders without an image file name
};

/// Whether the name is an image file name, in lower or upper case: .jpg, .jpeg, .jpe, .png, .tif, .tiff, .webp,
/// .gif, and the unsupported .bmp, .heic, .heif, .avif, so that such pictures are reported instead of ignored.
bool is_picture_name(const std::filesystem::path& path);

/// The usual endings, for messages.
inline constexpr const char* picture_endings = ".jpg, .png, .tif, .webp, .gif";

/// Entries of a folder without hidden ones, sorted by the bytes of their names. Errors: io.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

/// Image files in a folder and its subfolders, sorted by the bytes of their names, without hidden ones. Errors: io.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder);

/// Lists the pictures of a folder or of a list file.
/// A folder has one subfolder per class; deeper folders are included. Classes and pictures are sorted by the bytes of
/// their names. Links are followed; within a class, each real folder is read once, under its first name. Hidden files
/// and folders are ignored and not counted.
/// A list file has one picture per line: a path relative to the list's folder, a tab or space, and the class. The last
/// tab separates them or, if there is no tab, the last space. Empty lines and lines that start with # are ignored.
/// Errors: io; no_input (no such file or folder, no pictures); data (a line without a class, a class that is not in
/// `known`, a class folder without pictures).
PictureList list_pictures(const std::filesystem::path& input, const KnownClasses& known = {});

/// Two random parts of a list of pictures, each in random order. `taken` gets the fraction `share` of each class, to
/// within one picture, so that the total is also close to `share`. `kept` gets at least one picture of each class.
/// `seed` determines the result.
struct SharedPictures {
  std::vector<ListedPicture> kept, taken;
};
SharedPictures share_out(const std::vector<ListedPicture>& pictures, std::size_t class_count, double share,
                         std::uint64_t seed);

}  // namespace carillon
