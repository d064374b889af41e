// Folder scan: finds the pictures in a folder and its subfolders by their content.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace carillon {

/// The usual endings, for messages.
inline constexpr const char* picture_endings = ".jpg, .png, .tif, .webp, .gif, .bmp";

/// Whether the name has the ending of a picture format, in lower or upper case. The formats include those that are not
/// read, and the file may be damaged or missing, so that such pictures are reported instead of ignored.
bool is_picture_name(const std::filesystem::path& path);

/// Whether the file has a picture's name, or starts as a picture does. Raw files of cameras, such as .dng, are no
/// pictures: they start as a TIFF file, which holds a small preview.
bool is_picture(const std::filesystem::path& path);

/// Entries of a folder, sorted by the bytes of their names, without hidden entries and folders that systems and
/// archivers add, such as @eaDir and __MACOSX. Errors: io.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder);

/// Whether the entry is a folder, or a link to one.
bool is_folder(const std::filesystem::directory_entry& entry);

/// Files that are ignored, for a message.
struct IgnoredFiles {
  std::size_t count = 0;
  std::filesystem::path example;  ///< the first one

  void add(const std::filesystem::path& file) {
    if (count++ == 0) example = file;
  }
};

struct FolderScan {
  std::vector<std::filesystem::path> pictures;  ///< sorted by the bytes of their names, a folder at a time
  IgnoredFiles ignored;                         ///< files that are no pictures
};

/// Scans a folder and its subfolders, without the entries that entries_of omits. Links are followed, and each real
/// folder is read once, under its first name. A link back to `outer` is ignored. A folder that cannot be read is listed
/// as a picture, so that it is reported as one that cannot be opened.
FolderScan scan_folder(const std::filesystem::path& folder, const std::filesystem::path& outer = {});

/// Whether the folder holds a picture directly. Errors: io.
bool holds_pictures(const std::filesystem::path& folder);

}  // namespace carillon
