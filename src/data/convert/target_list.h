// Target lists: pictures with their targets from a CSV file, for tfrecord_convert images --targets.
#pragma once

#include <filesystem>
#include <optional>

#include "src/data/convert/picture_list.h"

namespace carillon {

/// Kind and names of the targets of the records that the output already has. A list must agree with them.
struct KnownTargets {
  TargetKind target = TargetKind::class_index;
  KnownClasses classes;  ///< names of classes, labels or numbers
};

/// Lists the pictures that `targets` names. Its first line names the columns. The first column is the path of a
/// picture, relative to `folder`. The others are the target:
///
///   classification   one column: the class
///   multilabel       one column: the labels, separated by ";"; empty: no label applies
///   regression       one or more columns of numbers, which the header names
///
/// `target`: the kind; nullopt: that of `known`, or as the cells look. Several columns, or only numbers, are a
/// regression; a column of mostly numbers is an error. If a cell has no label or several, the task is multilabel, else
/// classification. Spaces around labels and numbers are ignored. Classes and labels are sorted by their bytes.
///
/// Errors: no_input (no such file or folder; no picture), io, those of read_csv. data, naming file and line: a picture
/// that does not exist or occurs twice, an unknown label, a cell that is no number, a picture in place of the header,
/// another header than `known`.
PictureList list_targets(const std::filesystem::path& targets, const std::filesystem::path& folder,
                         std::optional<TargetKind> target, const std::optional<KnownTargets>& known);

}  // namespace carillon
