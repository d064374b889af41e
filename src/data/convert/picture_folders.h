// Folders of pictures: finds the pictures in a folder and its subfolders by their content, and recognises a folder that
// is already divided into training, validation and test pictures.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// The usual endings, for messages.
inline constexpr const char* picture_endings = ".jpg, .png, .tif, .webp, .gif, .bmp";

/// Whether the name has the ending of a picture format, in lower or upper case. This includes formats that this build
/// does not read, and the file may be damaged or missing: such pictures are reported, not ignored.
bool is_picture_name(const std::filesystem::path& path);

/// Whether the file has a picture's name (is_picture_name), or begins like a picture file. Raw files of cameras, such
/// as .dng, do not count as pictures, although they begin like a TIFF file that contains a small preview.
bool is_picture(const std::filesystem::path& path);

/// Entries of a folder, sorted by the bytes of their names, without hidden entries and folders that systems and
/// archivers add, such as @eaDir and __MACOSX. Errors: io.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

/// Whether the entry is a folder, or a link to one.
bool is_folder(const std::filesystem::directory_entry& entry);

/// Files that are ignored, for a message.
struct IgnoredFiles {
  std::size_t count = 0;
  std::filesystem::path example;  ///< the first ignored file

  void add(const std::filesystem::path& file) {
    if (count++ == 0) example = file;
  }
};

struct FolderScan {
  std::vector<std::filesystem::path> pictures;  ///< sorted by the bytes of their names, a folder at a time
  IgnoredFiles ignored;                         ///< files that are not pictures
};

/// Scans a folder and its subfolders, without the entries that entries_of omits. Links are followed, and each real
/// folder is read once, under its first name. A link back to `outer` is ignored. A folder that cannot be read is listed
/// as a picture, so that a report says that it cannot be opened.
FolderScan scan_folder(const std::filesystem::path& folder, const std::filesystem::path& outer = {});

/// Whether the folder holds a picture directly. Errors: io.
bool holds_pictures(const std::filesystem::path& folder);

// Split folders

/// What the folders in a folder of pictures mean.
enum class FolderLayout {
  automatic,  ///< splits if their names state splits, otherwise classes
  classes,    ///< classes
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
  std::vector<SplitFolder> splits;                ///< train first
  std::vector<std::filesystem::path> unlabelled;  ///< folders val or test with pictures but without folders of classes
};

/// The split that the words of a folder's name state: "train" for Training, train_images and TrainSet, "validation" for
/// val, valid and dev, "test" for Testing and test-set. Empty if no word states a split, or if they state several.
std::string split_of_name(const std::string& name);

/// Whether `folder` contains folders, and no pictures directly. Errors: io.
bool has_class_folders(const std::filesystem::path& folder);

/// Recognises the split folders in `input` by their names (split_of_name): a training folder, and a folder for
/// validation or test. The training folder must have one folder per class. The other folders also have one folder per
/// class. If such a folder has no class folders, or a single one that is not a training class, its pictures are not
/// labelled. Returns nullopt if `input` is not a folder, if it has no splits (for example, train and test are its
/// classes), or with FolderLayout::classes.
///
/// Errors: io; data (two folders for one split; another folder with pictures; folders with unknown names that contain
/// the same folders, so that they may be splits or classes).
std::optional<SplitFolders> find_split_folders(const std::filesystem::path& input, FolderLayout layout);

}  // namespace carillon
