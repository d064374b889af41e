#include "src/data/convert/split_folders.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "carillon/core/error.h"
#include "src/data/convert/picture_list.h"

namespace carillon {
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
