#include "src/data/convert/picture_folders.h"

#include <fmt/ranges.h>
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
#include "src/core/text.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 22> picture_names{
    ".jpg", ".jpeg", ".jpe",  ".jfif", ".jif", ".png", ".tif", ".tiff", ".webp", ".bmp", ".dib",
    ".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".ppm",  ".pgm",  ".pbm", ".pnm"};
constexpr std::array<std::string_view, 8> raw_names{".dng", ".cr2", ".nef", ".nrw", ".arw", ".sr2", ".pef", ".srw"};
/// Names of folders in which Synology and QNAP servers, macOS, Windows and Linux keep thumbnails, deleted files and
/// metadata.
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

/// Folders, identified by device and inode number.
using Folders = std::set<std::pair<dev_t, ino_t>>;

/// Adds `folder` to `folders`. Returns false if `folders` already contained it. A missing folder counts as new; reading
/// it later reports the error.
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
    scan.pictures.push_back(folder);  // the folder cannot be read; the code that reads it as a picture reports the
                                      // error
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

// Functions for split folders

namespace {

struct SplitWord {
  std::string_view word, split;
};
constexpr SplitWord split_words[] = {{"train", "train"},
                                     {"training", "train"},
                                     {"trn", "train"},
                                     {"val", "validation"},
                                     {"valid", "validation"},
                                     {"validation", "validation"},
                                     {"validate", "validation"},
                                     {"dev", "validation"},
                                     {"devel", "validation"},
                                     {"eval", "validation"},
                                     {"evaluation", "validation"},
                                     {"test", "test"},
                                     {"testing", "test"},
                                     {"tst", "test"}};
/// Endings that file names attach to a word: trainset, testdata, valimages.
constexpr std::string_view joined_endings[] = {"sets", "set", "data", "images", "imgs", "pictures"};
constexpr std::string_view split_order[] = {"train", "validation", "test"};

/// Returns the words of a name in lower case: "TrainSet_01" contains train and set.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  bool was_lower = false;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    const bool is_letter = std::isalpha(letter) != 0;
    if (!is_letter || (was_lower && std::isupper(letter) != 0)) words.emplace_back();
    if (is_letter) words.back() += static_cast<char>(std::tolower(letter));
    was_lower = std::islower(letter) != 0;
  }
  return words;
}

std::string_view split_of_word(std::string_view word) {
  const auto find = [](std::string_view wanted) { return std::ranges::find(split_words, wanted, &SplitWord::word); };
  if (const auto* const known = find(word); known != std::end(split_words)) return known->split;
  for (const std::string_view ending : joined_endings) {
    if (!word.ends_with(ending)) continue;
    const auto* const known = find(word.substr(0, word.size() - ending.size()));
    if (known != std::end(split_words)) return known->split;
  }
  return "";
}

using Names = std::set<std::string>;

/// Returns the names of the folders in a folder.
Names folder_names(const fs::path& folder) {
  Names names;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (is_folder(entry)) names.insert(entry.path().filename().string());
  }
  return names;
}

/// Checks that the folders in `input` cannot be mistaken: they must be clearly splits or clearly classes. Errors: data
/// (the folders in `input` hold no pictures directly, and they hold at least two folders with the same names).
void refuse_equal_folders(const fs::path& input) {
  std::vector<std::string> folders;
  Names common;
  for (const fs::directory_entry& entry : entries_of(input)) {
    if (!is_folder(entry)) continue;
    Names names = folder_names(entry.path());
    if (holds_pictures(entry.path())) return;
    if (names.empty()) continue;
    if (folders.empty()) {
      common = std::move(names);
    } else {
      std::erase_if(common, [&](const std::string& name) { return !names.contains(name); });
    }
    folders.push_back(entry.path().filename().string());
    if (common.size() < 2) return;
  }
  if (folders.size() < 2) return;
  constexpr std::size_t most = 10;
  const auto listed = [](auto first, auto last, std::size_t count) {
    std::vector<std::string> names(first, last);
    const bool is_cut = names.size() > most;
    if (is_cut) names.resize(most);
    return printable(fmt::format("{}{}", fmt::join(names, ", "), is_cut ? fmt::format(" of {}", count) : ""));
  };
  fail(ExitCode::data,
       "{}: its folders {} hold folders of the same names ({}): if they are splits, rename them train, val or test; if "
       "they are classes, add --layout classes",
       printable(input.string()), listed(folders.begin(), folders.end(), folders.size()),
       listed(common.begin(), common.end(), common.size()));
}

/// The folders in `input`, sorted by their meaning.
struct Candidates {
  SplitFolders found;
  std::vector<fs::path> others;      ///< folders with a name that states no split
  std::vector<fs::path> flat_train;  ///< training folders that contain no class folders
};

Candidates candidates_in(const fs::path& input) {
  Candidates all;
  for (const fs::directory_entry& entry : entries_of(input)) {
    if (!is_folder(entry)) continue;
    const fs::path& folder = entry.path();
    const std::string split = split_of_name(folder.filename().string());
    if (split.empty()) {
      all.others.push_back(folder);
    } else if (has_class_folders(folder)) {
      all.found.splits.push_back({split, folder});
    } else if (split == "train") {
      all.flat_train.push_back(folder);
    } else if (holds_pictures(folder)) {
      all.found.unlabelled.push_back(folder);
    }
  }
  std::ranges::stable_sort(all.found.splits, {},
                           [](const SplitFolder& folder) { return std::ranges::find(split_order, folder.split); });
  return all;
}

/// Moves a split to `unlabelled` if it has only one folder and this folder is not a training class, for example
/// test/unknown.
void move_unlabelled(SplitFolders& found) {
  const Names classes = folder_names(found.splits.front().folder);
  std::erase_if(found.splits, [&](const SplitFolder& split) {
    if (split.split == "train") return false;
    const Names names = folder_names(split.folder);
    if (names.size() != 1 || classes.contains(*names.begin())) return false;
    found.unlabelled.push_back(split.folder);
    return true;
  });
}

}  // namespace

FolderLayout layout_of(const std::string& text) {
  if (text.empty() || text == "auto") return FolderLayout::automatic;
  if (text == "classes") return FolderLayout::classes;
  fail(ExitCode::usage, "--layout '{}': must be auto or classes", printable(text));
}

std::string split_of_name(const std::string& name) {
  std::string split;
  for (const std::string& word : words_of(name)) {
    const std::string_view stated = split_of_word(word);
    if (stated.empty() || stated == split) continue;
    if (!split.empty()) return "";
    split = stated;
  }
  return split;
}

bool has_class_folders(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder), is_folder) && !holds_pictures(folder);
}

std::optional<SplitFolders> find_split_folders(const fs::path& input, FolderLayout layout) {
  std::error_code error;
  if (layout == FolderLayout::classes || !fs::is_directory(input, error)) return std::nullopt;
  auto [found, others, flat_train] = candidates_in(input);
  const bool has_train = !found.splits.empty() && found.splits.front().split == "train";
  if (!has_train || found.splits.size() + found.unlabelled.size() < 2) {
    refuse_equal_folders(input);
    return std::nullopt;
  }
  const auto twice = std::ranges::adjacent_find(found.splits, {}, &SplitFolder::split);
  if (twice != found.splits.end()) {
    fail(ExitCode::data, "{} and {} both hold the split {}: keep one of them", twice->folder.string(),
         std::next(twice)->folder.string(), twice->split);
  }
  others.insert(others.end(), flat_train.begin(), flat_train.end());
  for (const fs::path& other : others) {
    if (scan_folder(other).pictures.empty()) continue;
    fail(ExitCode::data, "{}: holds pictures, but is neither {} nor one of its classes: move it elsewhere",
         other.string(), found.splits.front().folder.string());
  }
  move_unlabelled(found);
  return found;
}

}  // namespace carillon
