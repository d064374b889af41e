// Picture lists: the image files of a dataset, their classes, and their targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/sample.h"
#include "src/data/convert/picture_folders.h"

namespace carillon {

/// The classes that a list may contain, in their order. If `names` is empty, the classes are the names in the list,
/// sorted.
struct KnownClasses {
  std::vector<std::string> names;
  std::string source;  ///< name of the source in messages: "records.json in the output"
};

/// Up to ten names of classes, labels or numbers, for a line of text. Combining marks are escaped, so that names that
/// differ only in Unicode's normal form look different.
std::string names_text(const std::vector<std::string>& names);

/// Checks whether class names are known.
class ClassCheck {
 public:
  explicit ClassCheck(const KnownClasses& known) : known_(known), names_(known.names.begin(), known.names.end()) {}

  /// True if the class `name` is known, or if no classes are known.
  bool allows(const std::string& name) const { return names_.empty() || names_.contains(name); }

  /// Checks that the class `name` is known. Errors: data (`name` is not a known class). `where`: the place that
  /// contains the name, for the message.
  void require(const std::string& name, const std::string& where) const;

 private:
  KnownClasses known_;
  std::set<std::string> names_;
};

/// Returns the known classes if there are any; otherwise the names in `found`, without repetitions and sorted by their
/// bytes. Errors: data (too many classes; a name that is not a line of text).
std::vector<std::string> classes_of(std::vector<std::string> found, const KnownClasses& known);

struct ListedPicture {
  std::filesystem::path path;
  std::string name = {};                 ///< path in the list file, or relative to the folder: "cat/001.jpg"
  std::size_t class_index = 0;           ///< index in PictureList::classes; only for TargetKind::class_index
  std::vector<std::size_t> labels = {};  ///< indices in PictureList::classes; only for TargetKind::labels
  std::vector<float> numbers = {};       ///< one for each of PictureList::classes; only for TargetKind::numbers
};

struct PictureList {
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes = {};  ///< names of classes, labels or numbers
  std::vector<ListedPicture> pictures = {};
  IgnoredFiles ignored = {};  ///< files in class folders that are not pictures
  IgnoredFiles outside = {};  ///< files outside the class folders
  /// Ignored folders with names such as unknown that are not known classes.
  std::vector<std::filesystem::path> unlabelled = {};
  std::string rounded = {};        ///< first whole number that float32 cannot represent: "line 3: 16777217 is ..."
  bool names_are_columns = false;  ///< true if each class or label has its own column of 0 and 1 (list_targets)
};

/// Lists the pictures of a folder or of a list file.
///
/// A folder has one subfolder per class; deeper folders are included. Classes and pictures are sorted by the bytes of
/// their names. scan_folder finds the pictures of a class. Some folder names, such as unknown, mean that the pictures
/// have no class. Such a folder is ignored unless its name is in `known`.
///
/// A list file has one picture per line: a path relative to the list's folder, a tab or space, and the class. The last
/// tab separates path and class; if there is no tab, the last space does. Empty lines and lines that start with # are
/// ignored.
///
/// Errors: io; no_input (no such file or folder, no pictures); data (a line without a class, a class that is not in
/// `known`, a class folder without pictures).
PictureList list_pictures(const std::filesystem::path& input, const KnownClasses& known = {});

/// Two random parts of a list of pictures, each in random order. `taken` contains the fraction `share` of each class,
/// rounded up or down to whole pictures, and about the fraction `share` of all pictures. `kept` contains at least one
/// picture of each class. `seed` determines the result.
struct SharedPictures {
  std::vector<ListedPicture> kept, taken;
};
SharedPictures share_out(const std::vector<ListedPicture>& pictures, std::size_t class_count, double share,
                         std::uint64_t seed);

// Target lists: pictures with their targets from a CSV file, for tfrecord_convert images --targets.

/// Kind and names of the targets of the records that are already in the output folder. A new list must have the same
/// kind and names.
struct KnownTargets {
  TargetKind target = TargetKind::class_index;
  KnownClasses classes;  ///< names of classes, labels or numbers
};

/// Lists the pictures in the CSV file `targets`. Its first line names the columns. The first column is the path of a
/// picture, relative to `folder`. The other columns are the target:
///
///   classification   one column: the class
///   multilabel       one column: the labels, separated by ";"; empty: no label applies
///   regression       one or more columns of numbers, which the header names
///
/// Alternatively, each class or label has its own column, with the cells 0 and 1, or false and true.
/// `target`: the kind of target. If `target` is nullopt, the kind is the kind in `known`; without `known`, the cells
/// decide. Several columns of 0 and 1 mean classes if each row has exactly one 1, otherwise labels. Other columns of
/// numbers mean regression. Whole numbers that repeat often are an error, because they could be classes. A column with
/// mostly numbers is an error, too. In all other cases, the task is multilabel if any cell has no label or several
/// labels, otherwise classification. Spaces around labels and numbers are ignored. Classes and labels are sorted by
/// their bytes.
///
/// Errors: no_input (no such file or folder; no picture), io; as read_csv; data (a picture that does not exist or
/// occurs twice, an unknown label, a cell that is not a number, a missing header, a header that differs from `known`).
/// Messages of data errors name file and line.
PictureList list_targets(const std::filesystem::path& targets, const std::filesystem::path& folder,
                         std::optional<TargetKind> target, const std::optional<KnownTargets>& known);

}  // namespace carillon
