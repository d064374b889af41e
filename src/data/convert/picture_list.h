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

/// The classes that a list may contain, in their order. If `names` is empty, the classes are the sorted names in the
/// list.
struct KnownClasses {
  std::vector<std::string> names;
  std::string source;  ///< name of the source in messages: "records.json in the output"
};

/// Returns up to ten names of classes, labels or numbers, for a line of text. Escapes combining marks. Otherwise, names
/// that differ only in Unicode's normal form would look equal.
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

/// If there are known classes, returns them. Otherwise returns the names in `found`, sorted by their bytes and without
/// repetitions. Errors: data (there are too many classes; a name is not a line of text).
std::vector<std::string> classes_of(std::vector<std::string> found, const KnownClasses& known);

struct ListedPicture {
  std::filesystem::path path;
  std::string name = {};                 ///< path in the list file, or relative to the folder: "cat/001.jpg"
  std::size_t class_index = 0;           ///< index in PictureList::classes; only for TargetKind::class_index
  std::vector<std::size_t> labels = {};  ///< indices in PictureList::classes; only for TargetKind::labels
  std::vector<float> numbers = {};       ///< one number for each element of PictureList::classes; only for
                                         ///< TargetKind::numbers
};

struct PictureList {
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes = {};  ///< names of classes, labels or numbers
  std::vector<ListedPicture> pictures = {};
  IgnoredFiles ignored = {};  ///< files in class folders that are not pictures
  IgnoredFiles outside = {};  ///< files outside the class folders
  /// Folders that are ignored, because names such as unknown are not known classes.
  std::vector<std::filesystem::path> unlabelled = {};
  std::string rounded = {};        ///< first whole number that float32 cannot represent: "line 3: 16777217 is ..."
  bool names_are_columns = false;  ///< true: each class or label has its own column of 0 and 1 (list_targets)
};

/// Lists the pictures of a folder or of a list file.
///
/// A folder has one subfolder per class; deeper folders are included. Classes and pictures are sorted by the bytes of
/// their names. scan_folder finds the pictures of a class. Some folder names, such as unknown, mean that the pictures
/// have no class. Such a folder is ignored unless its name is in `known`.
///
/// A list file has one picture per line: a path relative to the list's folder, a tab or space, and the class. The last
/// tab separates path and class. If there is no tab, the last space separates them. Empty lines and lines that start
/// with # are ignored.
///
/// Errors: io; no_input (the file or folder does not exist, or has no pictures); data (a line has no class; a class is
/// not in `known`; a class folder has no pictures).
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

/// Lists the pictures in the CSV file `targets`. The first line of the file names the columns. The first column is the
/// path of a picture, relative to `folder`. The other columns are the target:
///
///   classification   one column: the class
///   multilabel       one column: the labels, separated by ";"; empty: no label applies
///   regression       one or more columns of numbers, which the header names
///
/// Alternatively, each class or label has its own column, with the cells 0 and 1, or false and true.
/// `target`: the kind of target. If `target` is nullopt, the kind is the same as in `known`. If `known` is also
/// nullopt, the cells determine the kind: Several columns of 0 and 1 mean classes if each row has exactly one 1,
/// otherwise labels. Other columns of numbers mean regression. Whole numbers that repeat often are an error, because
/// they could be classes. A column that contains mostly numbers, but not only numbers, is also an error. In all other
/// cases, the task is multilabel if a cell has no label or several labels; otherwise it is classification. Spaces
/// around labels and numbers are ignored. Classes and labels are sorted by their bytes.
///
/// Errors: no_input (the file or folder does not exist; there is no picture), io; the errors of read_csv; data (a
/// picture does not exist or occurs twice; a label is unknown; a cell is not a number; the header is missing or differs
/// from `known`). The messages of data errors name file and line.
PictureList list_targets(const std::filesystem::path& targets, const std::filesystem::path& folder,
                         std::optional<TargetKind> target, const std::optional<KnownTargets>& known);

}  // namespace carillon
