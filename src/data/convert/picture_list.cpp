#include "src/data/convert/picture_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/text.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

void ClassCheck::require(const std::string& name, const std::string& where) const {
  if (names_.empty() || names_.contains(name)) return;
  fail(ExitCode::data, "{}: the class '{}' is not among the {} of {}", where, printable(name), names_.size(), source_);
}

std::vector<std::string> classes_of(std::vector<std::string> found, const KnownClasses& known) {
  std::vector<std::string> classes = known.names;
  if (classes.empty()) {
    classes = std::move(found);
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  }
  if (classes.size() > max_classes) {
    fail(ExitCode::data, "{} classes exceed the limit of {}", classes.size(), max_classes);
  }
  for (const std::string& name : classes) {
    if (is_line(name) && name.size() <= max_line_bytes) continue;
    fail(ExitCode::data,
         "the name of the class '{}' must be UTF-8 of at most {} bytes, without control characters: rename it",
         printable(name), max_line_bytes);
  }
  return classes;
}

namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

/// Folders by device and inode number.
using Folders = std::set<std::pair<dev_t, ino_t>>;

/// False if `folder` is among the folders. An absent folder is new: reading it reports the error.
bool is_new(const fs::path& folder, Folders& folders) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) != 0 || folders.emplace(status.st_dev, status.st_ino).second;
}

/// Collects the files in `folder` and its subfolders, through links too. Folders in `seen` are ignored, so that the
/// search ends and finds no file twice.
void collect(const fs::path& folder, std::vector<fs::path>& files, Folders& seen) {
  if (!is_new(folder, seen)) return;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    std::error_code error;
    if (entry.is_directory(error)) {
      collect(entry.path(), files, seen);
    } else {
      files.push_back(entry.path());
    }
  }
}

/// Sets the class index of each picture. `named` holds the class name of each element of `pictures`.
void number_classes(PictureList& list, const std::vector<std::string>& named, const KnownClasses& known) {
  list.classes = classes_of(named, known);
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < list.classes.size(); ++i) places.emplace(list.classes[i], i);
  for (std::size_t i = 0; i < named.size(); ++i) list.pictures[i].class_index = places.at(named[i]);
}

PictureList list_folder(const fs::path& input, const KnownClasses& known) {
  const ClassCheck classes(known);
  PictureList list;
  std::vector<std::string> named;
  for (const fs::directory_entry& entry : entries_of(input)) {
    std::error_code error;
    if (!entry.is_directory(error)) {
      ++list.passed_over;
      continue;
    }
    const std::string name = entry.path().filename().string();
    classes.require(name, input.string());
    std::vector<fs::path> files;
    Folders seen;
    is_new(input, seen);  // a link back to it is ignored
    collect(entry.path(), files, seen);
    const std::size_t before = list.pictures.size();
    for (fs::path& file : files) {
      if (is_picture_name(file)) {
        std::string shown = file.lexically_relative(input).generic_string();
        list.pictures.push_back({.path = std::move(file), .name = std::move(shown)});
        named.push_back(name);
      } else {
        ++list.passed_over;
      }
    }
    if (list.pictures.size() == before) {
      fail(ExitCode::data, "{}: contains no picture ({}); remove the folder or add pictures of this class",
           entry.path().string(), picture_endings);
    }
  }
  if (list.pictures.empty()) {
    fail(ExitCode::no_input, "{}: contains no folder of pictures; create one folder per class", input.string());
  }
  number_classes(list, named, known);
  return list;
}

PictureList list_file(const fs::path& input, const KnownClasses& known) {
  constexpr std::size_t max_bytes = std::size_t{1} << 30;
  const ClassCheck classes(known);
  PictureList list;
  std::vector<std::string> named;
  std::istringstream lines(read_plain_file(input, input.string(), max_bytes));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const std::string where = fmt::format("{}: line {}", input.string(), number);
    const std::size_t cut = line.find('\t') != line.npos ? line.rfind('\t') : line.rfind(' ');
    if (cut == line.npos || cut == 0 || cut + 1 == line.size()) {
      fail(ExitCode::data, "{}: requires a path, a tab or space, and a class", where);
    }
    const std::string name = line.substr(cut + 1);
    classes.require(name, where);
    list.pictures.push_back({.path = input.parent_path() / line.substr(0, cut), .name = line.substr(0, cut)});
    named.push_back(name);
  }
  if (list.pictures.empty()) fail(ExitCode::no_input, "{}: lists no picture", input.string());
  number_classes(list, named, known);
  return list;
}

}  // namespace

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (!is_hidden(i->path())) entries.push_back(*i);
  }
  if (error) fail(ExitCode::io, "{}: cannot read the folder: {}", folder.string(), error.message());
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path().filename().string(); });
  return entries;
}

bool is_picture_name(const fs::path& path) {
  constexpr std::array<std::string_view, 12> endings{".jpg",  ".jpeg", ".jpe", ".png",  ".tif",  ".tiff",
                                                     ".webp", ".bmp",  ".gif", ".heic", ".heif", ".avif"};
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(endings, ending) != endings.end();
}

std::vector<fs::path> pictures_in(const fs::path& folder) {
  std::vector<fs::path> files;
  Folders seen;
  collect(folder, files, seen);
  std::erase_if(files, [](const fs::path& file) { return !is_picture_name(file); });
  return files;
}

PictureList list_pictures(const fs::path& input, const KnownClasses& known) {
  std::error_code error;
  if (!fs::exists(input, error)) fail(ExitCode::no_input, "{}: no such folder or list of pictures", input.string());
  return fs::is_directory(input, error) ? list_folder(input, known) : list_file(input, known);
}

SharedPictures share_out(const std::vector<ListedPicture>& pictures, std::size_t class_count, double share,
                         std::uint64_t seed) {
  std::vector<std::vector<ListedPicture>> by_class(class_count);
  for (const ListedPicture& picture : pictures) by_class[picture.class_index].push_back(picture);
  std::vector<ListedPicture> kept, taken;
  for (const std::vector<ListedPicture>& of_class : by_class) {
    if (of_class.empty()) continue;
    // The target count includes all previous classes, so that many small classes together reach the share.
    const auto seen = static_cast<double>(kept.size() + taken.size() + of_class.size());
    const auto due = static_cast<std::size_t>(std::lround(share * seen));
    const std::size_t wanted = due - std::min(due, taken.size());
    SampleOrder order(of_class.size(), seed, true);
    for (std::size_t i = 0; i < of_class.size(); ++i) {
      (i < std::min(wanted, of_class.size() - 1) ? taken : kept).push_back(of_class[order.record_at(i)]);
    }
  }
  const auto mixed = [seed](const std::vector<ListedPicture>& from) {
    std::vector<ListedPicture> all;
    if (from.empty()) return all;
    SampleOrder order(from.size(), seed + 1, true);
    for (std::size_t i = 0; i < from.size(); ++i) all.push_back(from[order.record_at(i)]);
    return all;
  };
  return {mixed(kept), mixed(taken)};
}

namespace {

namespace fs = std::filesystem;

struct FolderName {
  std::string_view name, split;
};
constexpr FolderName folder_names[] = {
    {"train", "train"}, {"val", "validation"}, {"valid", "validation"}, {"validation", "validation"}, {"test", "test"}};
constexpr std::string_view split_order[] = {"train", "validation", "test"};

/// The split that a folder's name states; empty if none.
std::string split_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto known = std::ranges::find(folder_names, name, &FolderName::name);
  return known != std::end(folder_names) ? std::string(known->split) : "";
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}

bool holds_pictures(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder), [](const fs::directory_entry& entry) {
    return !is_folder(entry) && is_picture_name(entry.path());
  });
}

}  // namespace

bool has_class_folders(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder), is_folder) && !holds_pictures(folder);
}

std::optional<SplitFolders> find_split_folders(const fs::path& input) {
  std::error_code error;
  if (!fs::is_directory(input, error)) return std::nullopt;
  SplitFolders found;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : entries_of(input)) {
    if (!is_folder(entry)) continue;
    const fs::path& folder = entry.path();
    const std::string split = split_of(folder);
    if (split.empty()) {
      others.push_back(folder);
    } else if (has_class_folders(folder)) {
      found.splits.push_back({split, folder});
    } else if (split == "train") {
      return std::nullopt;  // a class of that name
    } else if (holds_pictures(folder)) {
      found.unlabelled.push_back(folder);
    }
  }
  std::ranges::stable_sort(found.splits, {},
                           [](const SplitFolder& folder) { return std::ranges::find(split_order, folder.split); });
  if (found.splits.empty() || found.splits.front().split != "train") return std::nullopt;
  if (found.splits.size() + found.unlabelled.size() < 2) return std::nullopt;
  const auto twice = std::ranges::adjacent_find(found.splits, {}, &SplitFolder::split);
  if (twice != found.splits.end()) {
    fail(ExitCode::data, "{} and {} both hold the split {}: keep one of them", twice->folder.string(),
         std::next(twice)->folder.string(), twice->split);
  }
  for (const fs::path& other : others) {
    if (pictures_in(other).empty()) continue;
    fail(ExitCode::data, "{}: holds pictures, but is neither {} nor one of its classes: move it elsewhere",
         other.string(), found.splits.front().folder.string());
  }
  return found;
}

}  // namespace carillon
