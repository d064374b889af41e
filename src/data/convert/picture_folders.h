// Folders of pictures. Finds the pictures in a folder and its subfolders by their names and contents. Also recognises a
// folder that is already divided into training, validation and test pictures.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// The usual endings of picture files, for messages.
inline constexpr const char* picture_endings = ".jpg, .png, .tif, .webp, .gif, .bmp";

/// True if the name has the ending of a picture format, in lower or upper case. Also true for formats that this build
/// does not read, and for damaged or missing files: such pictures must be reported, not ignored.
bool is_picture_name(const std::filesystem::path& path);

/// True if the file has a picture's name (is_picture_name), or begins like a picture file. Raw files of cameras, such
/// as .dng, do not count as pictures, although they begin like a TIFF file that contains a small preview.
bool is_picture(const std::filesystem::path& path);

/// Returns the entries of a folder, sorted by the bytes of their names. Omits hidden entries and folders that systems
/// and archivers add, such as @eaDir and __MACOSX. Errors: io.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

/// True if the entry is a folder, or a link to a folder.
bool is_folder(const std::filesystem::directory_entry& entry);

/// The ignored files, for a message.
struct IgnoredFiles {
  std::size_t count = 0;
  std::filesystem::path example;  ///< the first ignored file

  void add(const std::filesystem::path& file) {
    if (count++ == 0) example = file;
  }
};

struct FolderScan {
  /// The paths of the pictures, folder by folder. Within a folder, the pictures are sorted by the bytes of their names.
  std::vector<std::filesystem::path> pictures;
  IgnoredFiles ignored;  ///< files that are not pictures
};

/// Scans a folder and its subfolders, without the entries that entries_of omits. The scan follows links, and reads each
/// real folder once, under its first name. The scan ignores a link back to `outer`. If it cannot read a folder, it adds
/// the folder's path to `pictures`, so that a later report says that the folder cannot be opened.
FolderScan scan_folder(const std::filesystem::path& folder, const std::filesystem::path& outer = {});

/// True if the folder holds a picture directly. Errors: io.
bool holds_pictures(const std::filesystem::path& folder);

// Functions for split folders

/// The meaning of the folders in a folder of pictures.
enum class FolderLayout {
  automatic,  ///< the folders are splits if their names state splits, otherwise classes
  classes,    ///< the folders are classes
};

/// Converts the value of --layout: auto (or an empty text) or classes. Errors: usage.
FolderLayout layout_of(const std::string& text);

/// Describes --layout.
inline constexpr const char* layout_help =
    "meaning of the folders in the folder of pictures: auto: splits if their names are such as train, val or test, "
    "else "
    "classes; classes: always classes";

struct SplitFolder {
  std::string split;  ///< train, validation or test
  std::filesystem::path folder;
};

struct SplitFolders {
  std::vector<SplitFolder> splits;                ///< the training split is first
  std::vector<std::filesystem::path> unlabelled;  ///< folders val or test that have pictures but no class folders
};

/// Returns the split that the words of a folder's name state. Examples: "train" for Training, train_images and
/// TrainSet; "validation" for val, valid and dev; "test" for Testing and test-set. Returns an empty text if the words
/// state no split or several splits.
std::string split_of_name(const std::string& name);

/// True if `folder` contains folders, and no pictures directly. Errors: io.
bool has_class_folders(const std::filesystem::path& folder);

/// Recognises the split folders in `input` by their names (split_of_name): a training folder, and a folder for
/// validation or test. The training folder must have one folder per class. The other split folders also have one folder
/// per class. Exception: the pictures of such a folder count as not labelled in two cases: it has no class folders, or
/// its only class folder is not a training class. Returns nullopt if `layout` is FolderLayout::classes, if `input` is
/// not a folder, or if its folders are not splits. For example, folders named train and test may be classes.
///
/// Errors: io; data (two folders state the same split; a folder of another kind contains pictures; folders with unknown
/// names contain the same folders, so that they may be splits or classes).
std::optional<SplitFolders> find_split_folders(const std::filesystem::path& input, FolderLayout layout);

}  // namespace carillon
