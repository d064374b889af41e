#include "src/data/convert/folder_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/images/formats.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 22> picture_names{
    ".jpg", ".jpeg", ".jpe",  ".jfif", ".jif", ".png", ".tif", ".tiff", ".webp", ".bmp", ".dib",
    ".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".ppm",  ".pgm",  ".pbm", ".pnm"};
constexpr std::array<std::string_view, 8> raw_names{".dng", ".cr2", ".nef", ".nrw", ".arw", ".sr2", ".pef", ".srw"};
/// Folders of thumbnails, deleted files and metadata: of Synology and QNAP servers, macOS, Windows and Linux.
constexpr std::array<std::string_view, 8> system_folders{
    "@eaDir",    "#recycle", "#snapshot", "@Recycle", "__MACOSX", "$RECYCLE.BIN", "System Volume Information",
    "lost+found"};

template <std::size_t count>
bool has_ending(const fs::path& path, const std::array<std::string_view, count>& endings) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(endings, ending) != endings.end();
}

bool is_hidden(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.starts_with(".") || (std::ranges::find(system_folders, name) != system_folders.end() && is_folder(entry));
}

bool starts_as_picture(const fs::path& path) {
  std::array<std::uint8_t, picture_kind_bytes> first{};
  std::size_t count = 0;
  try {
    const Descriptor file = open_plain_file(path, path.string());
    if (read_all(file.get(), std::as_writable_bytes(std::span(first)), count) != 0) return false;
  } catch (const Error&) {
    return false;
  }
  return begins_as_picture(std::span(first).first(count));
}

/// Folders by device and inode number.
using Folders = std::set<std::pair<dev_t, ino_t>>;

/// False if `folder` is among the folders. An absent folder is new: reading it reports the error.
bool is_new(const fs::path& folder, Folders& folders) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) != 0 || folders.emplace(status.st_dev, status.st_ino).second;
}

/// Adds the pictures of the folder to the scan. Ignores folders in `seen`, so that the scan ends and finds no file
/// twice.
void scan_into(const fs::path& folder, FolderScan& scan, Folders& seen) {
  if (!is_new(folder, seen)) return;
  std::vector<fs::directory_entry> entries;
  try {
    entries = entries_of(folder);
  } catch (const Error&) {
    scan.pictures.push_back(folder);  // reading it as a picture reports the error
    return;
  }
  for (const fs::directory_entry& entry : entries) {
    if (is_folder(entry)) {
      scan_into(entry.path(), scan, seen);
    } else if (is_picture(entry.path())) {
      scan.pictures.push_back(entry.path());
    } else {
      scan.ignored.add(entry.path());
    }
  }
}

}  // namespace

bool is_picture_name(const fs::path& path) { return has_ending(path, picture_names); }

bool is_picture(const fs::path& path) {
  return is_picture_name(path) || (!has_ending(path, raw_names) && starts_as_picture(path));
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (!is_hidden(*i)) entries.push_back(*i);
  }
  if (error) fail(ExitCode::io, "{}: cannot read the folder: {}", folder.string(), error.message());
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path().filename().string(); });
  return entries;
}

FolderScan scan_folder(const fs::path& folder, const fs::path& outer) {
  FolderScan scan;
  Folders seen;
  if (!outer.empty()) is_new(outer, seen);
  scan_into(folder, scan, seen);
  return scan;
}

bool holds_pictures(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder), [](const fs::directory_entry& entry) {
    return !is_folder(entry) && is_picture(entry.path());
  });
}

}  // namespace carillon
