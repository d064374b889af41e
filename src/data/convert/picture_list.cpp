#include "src/data/convert/picture_list.h"

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
#include "src/core/text.h"
#include "src/core/text_file.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

namespace {

/// True if Unicode's form NFC combines the character with the character before it. This is true for accents, Korean
/// letters and Japanese marks.
bool is_composed(char32_t c) {
  return (c >= 0x300 && c <= 0x36F) || (c >= 0x1100 && c <= 0x11FF) || c == 0x3099 || c == 0x309A;
}

/// Escapes the same characters as printable and, as JSON does, the characters that form NFC combines (is_composed).
std::string visible(const std::string& name) {
  const std::string text = printable(name);
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const Character character = first_character(rest);
    const std::string_view own = rest.substr(0, std::max<std::size_t>(character.bytes, 1));
    shown += is_composed(character.code) ? fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code))
                                         : std::string(own);
    rest.remove_prefix(own.size());
  }
  return shown;
}

}  // namespace

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", visible(names[i]));
  }
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

void ClassCheck::require(const std::string& name, const std::string& where) const {
  if (allows(name)) return;
  fail(ExitCode::data, "{}: the class '{}' is not among the {} of {} ({})", where, visible(name), names_.size(),
       known_.source, names_text(known_.names));
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

/// True if the name of a folder means that its pictures have no class.
bool means_unlabelled(std::string name) {
  constexpr std::array<std::string_view, 4> names{"unknown", "unlabelled", "unlabeled", "unclassified"};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(names, name) != names.end();
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
    if (!is_folder(entry)) {
      list.outside.add(entry.path());
      continue;
    }
    const std::string name = entry.path().filename().string();
    if (!classes.allows(name) && means_unlabelled(name)) {
      list.unlabelled.push_back(entry.path());
      continue;
    }
    classes.require(name, input.string());
    FolderScan scan = scan_folder(entry.path(), input);  // ignores a link back to `input`
    if (scan.pictures.empty()) {
      fail(ExitCode::data, "{}: contains no picture ({}); remove the folder or add pictures of this class",
           entry.path().string(), picture_endings);
    }
    for (fs::path& file : scan.pictures) {
      std::string shown = file.lexically_relative(input).generic_string();
      list.pictures.push_back({.path = std::move(file), .name = std::move(shown)});
      named.push_back(name);
    }
    if (list.ignored.count == 0) list.ignored.example = scan.ignored.example;
    list.ignored.count += scan.ignored.count;
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
  std::istringstream lines(read_text_file(input, input.string(), max_bytes));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
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
    // `due` counts the pictures to take from this class and all previous classes together, so that many small classes
    // together reach the share.
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

}  // namespace carillon
