#include "src/data/convert/convert_pictures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "src/core/text.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr const char* train_split = "train";
constexpr const char* validation_split = "validation";

std::string text_of(const fs::path& path) { return printable(path.string()); }

void check_options(const PictureConversionOptions& o) {
  if (!(o.validation_share >= 0.0 && o.validation_share < 1.0)) {
    fail(ExitCode::usage, "--validation-share {}: must be 0 or more and less than 1", o.validation_share);
  }
  if (o.validation_share > 0.0 && o.split != train_split) {
    fail(ExitCode::usage, "--validation-share requires --split train, this is --split {}", o.split);
  }
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (o.split.empty() || !std::ranges::all_of(o.split, is_plain)) {
    fail(ExitCode::usage, "--split '{}': must be a name of letters, digits and _", printable(o.split));
  }
  if (o.conversion.resize_shorter < 0) {
    fail(ExitCode::usage, "--resize-shorter {}: must be 0 or more", o.conversion.resize_shorter);
  }
  if (o.conversion.quality < 1 || o.conversion.quality > 100) {
    fail(ExitCode::usage, "--quality {}: must be 1 to 100", o.conversion.quality);
  }
}

/// Returns the description of the records that this module writes. DatasetInfo::scales is empty.
DatasetInfo info_of(TargetKind target, const std::vector<std::string>& classes, const Colour& background) {
  DatasetInfo info{.classes = classes, .background = background, .target = target};
  if (target == TargetKind::numbers) info.keys.label = numbers_key;
  return info;
}

/// Returns the description of the records that are already in `output`, or nullopt if there are none. Errors: usage
/// (the records have other keys).
std::optional<DatasetInfo> earlier_records(const fs::path& output) {
  std::optional<DatasetInfo> earlier = read_dataset_info(output);
  DatasetInfo usual;
  if (earlier) {
    usual = info_of(earlier->target, earlier->classes, earlier->background);
    usual.scales = earlier->scales;
  }
  if (earlier && *earlier != usual) {
    fail(ExitCode::usage, "{}: its {} describes records with other keys or labels: choose another directory",
         text_of(output), dataset_info_name);
  }
  return earlier;
}

/// Returns the background of the new records. Errors: usage (the records in `output` have another background).
Colour background_for(const PictureConversionOptions& options, const std::optional<DatasetInfo>& earlier,
                      const fs::path& output) {
  if (!earlier) return options.background.value_or(Colour{});
  if (options.background && *options.background != earlier->background) {
    fail(ExitCode::usage, "--background {}: the records in {} have the background {}: choose another directory",
         colour_text(*options.background), text_of(output), colour_text(earlier->background));
  }
  return earlier->background;
}

/// Calls `visit` with the path and the name of each shard in `output`.
void for_each_shard(const fs::path& output, const std::function<void(const fs::path&, const std::string&)>& visit) {
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(output, absent)) {
    const std::string name = entry.path().filename().string();
    if (is_shard(name)) visit(entry.path(), name);
  }
}

/// Checks that `output` has no files of other splits, because these files may hold the same pictures from an earlier
/// conversion. Errors: usage.
void check_no_other_split(const std::vector<SplitSize>& written, const fs::path& output) {
  for_each_shard(output, [&](const fs::path& path, const std::string& name) {
    if (std::ranges::any_of(written, [&](const SplitSize& split) { return is_shard_of(name, split.name); })) return;
    fail(ExitCode::usage,
         "{}: belongs to another split and may hold the same pictures: remove it, or name the split to write with "
         "--split",
         text_of(path));
  });
}

/// Checks that the output does not contain this split. Errors: usage (it does).
void check_split_is_new(const std::string& split, const fs::path& output) {
  for_each_shard(output, [&](const fs::path& path, const std::string& name) {
    if (!is_shard_of(name, split)) return;
    fail(ExitCode::usage,
         "{}: the split {} exists: choose another --split or directory, or replace it with --overwrite", text_of(path),
         split);
  });
}

struct NamedSplit {
  std::string name;
  std::vector<ListedPicture> pictures;
  bool is_share = false;  ///< the pictures are a share that was taken from the first split
};

struct PictureSplits {
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes;
  std::vector<NamedSplit> splits;
};

void note_ignored(const PictureList& list, const fs::path& folder, const ConversionReports& reports) {
  for (const auto& [files, reason] :
       {std::pair(&list.ignored, "no picture"), {&list.outside, "not in the folder of a class"}}) {
    if (files->count == 0) continue;
    reports.warn(fmt::format("ignored {} in {}: {}, for example {}", count_text(files->count, "file"), text_of(folder),
                             reason, text_of(files->example.lexically_relative(folder))));
  }
  for (const fs::path& unlabelled : list.unlabelled) {
    reports.warn(fmt::format("ignored {}: the training has no class of this name", text_of(unlabelled)));
  }
}

/// Checks that the list has at least two classes. Errors: data (it has fewer).
void check_classes(const PictureList& list, const fs::path& input) {
  if (list.classes.size() >= 2) return;
  const fs::path folder = input / list.classes.front();
  std::error_code error;
  const bool has_folders = fs::is_directory(folder, error) && has_class_folders(folder);
  fail(ExitCode::data, "{}: contains only the class '{}', and a classifier requires at least two{}", text_of(input),
       list.classes.front(),
       has_folders ? fmt::format("; if its folders are the classes, name {} instead", text_of(folder)) : "");
}

/// Counts the pictures in `pictures` for each class or label.
std::vector<std::size_t> class_counts(const std::vector<ListedPicture>& pictures, const PictureSplits& all) {
  std::vector<std::size_t> counts(all.classes.size());
  for (const ListedPicture& picture : pictures) {
    if (all.target == TargetKind::class_index) ++counts[picture.class_index];
    for (const std::size_t label : picture.labels) ++counts[label];
  }
  return counts;
}

/// Lists the names text(i) of the classes or labels i for which `holds(i)` is true (names_text). Returns an empty text
/// if there are none.
std::string listed_classes(std::size_t count, const std::function<bool(std::size_t)>& holds,
                           const std::function<std::string(std::size_t)>& text) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    if (holds(i)) names.push_back(text(i));
  }
  return names_text(names);
}

/// Warns of classes or labels with few pictures in the first split or in the validation share.
void warn_of_small_classes(const PictureSplits& written, const ConversionReports& reports) {
  if (written.target == TargetKind::numbers || written.splits.front().name != train_split) return;
  std::vector<std::size_t> counts(written.classes.size());
  for (const NamedSplit& split : written.splits) {
    if (&split != &written.splits.front() && !split.is_share) continue;
    const std::vector<std::size_t> own = class_counts(split.pictures, written);
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += own[i];
  }
  const std::string names = listed_classes(
      counts.size(), [&](std::size_t i) { return counts[i] < few_pictures; },
      [&](std::size_t i) { return fmt::format("{} ({})", written.classes[i], counts[i]); });
  if (names.empty()) return;
  reports.warn(fmt::format("few pictures to train on, fewer than {} per {}: {}", few_pictures,
                           written.target == TargetKind::labels ? "label" : "class", names));
}

/// Checks that each class or label of a split still has a picture after damaged pictures were skipped. `before`: the
/// class_counts of the split before pictures were skipped. Errors: data (all training pictures of a class were
/// skipped). If this happens in another split, only warns.
void check_skipped(const NamedSplit& written, const std::vector<std::size_t>& before, const PictureSplits& all,
                   const fs::path& input, const ConversionReports& reports) {
  if (all.target == TargetKind::numbers || written.is_share) return;
  const std::vector<std::size_t> after = class_counts(written.pictures, all);
  const std::string names = listed_classes(
      after.size(), [&](std::size_t i) { return before[i] > 0 && after[i] == 0; },
      [&](std::size_t i) { return fmt::format("'{}' ({})", all.classes[i], before[i]); });
  if (names.empty()) return;
  const std::string fault = fmt::format("no picture of the split {} can be used for the {} {}: see the messages above",
                                        written.name, all.target == TargetKind::labels ? "label" : "class", names);
  if (&written != &all.splits.front()) return reports.warn(fault);
  fail(ExitCode::data, "{}: {}; mend the pictures, or remove the folder", text_of(input), fault);
}

PictureSplits list_split_folders(const PictureConversionOptions& options, const SplitFolders& folders,
                                 const fs::path& input, const KnownClasses& known, const ConversionReports& reports) {
  if (options.names_split) {
    fail(ExitCode::usage, "--split {}: {} is already divided into splits; give one of its folders as --input",
         options.split, text_of(input));
  }
  std::string recognised;
  PictureSplits all;
  for (const SplitFolder& folder : folders.splits) {
    recognised += fmt::format("{}{} ({})", recognised.empty() ? "" : ", ", folder.split, text_of(folder.folder));
    const bool is_first = all.splits.empty();
    if (options.validation_share > 0.0 && folder.split == validation_split) {
      fail(ExitCode::usage, "--validation-share: {} already holds the split validation", text_of(folder.folder));
    }
    PictureList list = list_pictures(
        folder.folder, is_first ? known : KnownClasses{all.classes, text_of(folders.splits.front().folder)});
    note_ignored(list, folder.folder, reports);
    if (is_first) {
      check_classes(list, folder.folder);
      all.classes = std::move(list.classes);
    }
    all.splits.push_back({folder.split, std::move(list.pictures)});
  }
  reports.note("recognised the splits " + recognised);
  for (const fs::path& folder : folders.unlabelled) {
    reports.warn(fmt::format("ignored {}: it has no folders of classes", text_of(folder)));
  }
  return all;
}

/// Reports two things: how many pictures of the folder are not in the CSV file, and the columns in which all numbers
/// are equal.
void note_unlisted(const PictureList& list, const fs::path& folder, const PictureConversionOptions& options,
                   const ConversionReports& reports) {
  const std::size_t found = scan_folder(folder).pictures.size();
  if (found > list.pictures.size()) {
    reports.note(fmt::format("{} of the {} pictures in {} are not in {}", found - list.pictures.size(), found,
                             text_of(folder), text_of(options.targets)));
  }
  if (list.target != TargetKind::numbers) return;
  std::vector<std::string> constant;
  for (std::size_t column = 0; column < list.classes.size(); ++column) {
    const float first = list.pictures.front().numbers[column];
    const auto is_first = [&](const ListedPicture& picture) { return picture.numbers[column] == first; };
    if (!std::ranges::all_of(list.pictures, is_first)) continue;
    constant.push_back(fmt::format("{} (always {})", list.classes[column], first));
  }
  if (!constant.empty()) reports.warn("equal in all pictures: " + names_text(constant));
  if (!list.rounded.empty()) {
    reports.warn(
        fmt::format("{}: {}; numbers are stored as float32: if the difference matters, subtract a constant in the file",
                    text_of(options.targets), list.rounded));
  }
}

PictureSplits list_target_splits(const PictureConversionOptions& options, const fs::path& input,
                                 const std::optional<KnownTargets>& known, const ConversionReports& reports) {
  PictureList list = list_targets(options.targets, input, options.target, known);
  reports.note(fmt::format("{}: {} pictures with {} {} ({}{})", text_of(options.targets), list.pictures.size(),
                           list.classes.size(), target_words(list.target), task_name(list.target),
                           list.names_are_columns ? "; each column of 0 and 1 is one of them" : ""));
  note_unlisted(list, input, options, reports);
  if (list.target == TargetKind::class_index) check_classes(list, options.targets);
  return {list.target, std::move(list.classes), {{options.split, std::move(list.pictures)}}};
}

/// Lists the pictures of each split, in the order of the input.
PictureSplits list_splits(const PictureConversionOptions& options, const fs::path& input,
                          const std::optional<KnownTargets>& earlier, const ConversionReports& reports) {
  if (!options.targets.empty()) return list_target_splits(options, input, earlier, reports);
  const KnownClasses known = earlier ? earlier->classes : KnownClasses{};
  if (earlier && earlier->target != TargetKind::class_index) {
    fail(ExitCode::usage, "{} has the task {}, which requires --targets", known.source, task_name(earlier->target));
  }
  if (const std::optional<SplitFolders> folders = find_split_folders(input, options.layout)) {
    return list_split_folders(options, *folders, input, known, reports);
  }
  PictureList list = list_pictures(input, known);
  note_ignored(list, input, reports);
  check_classes(list, input);
  return {list.target, std::move(list.classes), {{options.split, std::move(list.pictures)}}};
}

/// Computes the mean and the deviation of each number. If a number is equal in all pictures, its deviation becomes 1.
std::vector<NumberScale> scales_of(const std::vector<ListedPicture>& pictures, std::size_t count) {
  std::vector<NumberScale> scales(count);
  const auto pictures_count = static_cast<double>(pictures.size());
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0.0, squares = 0.0;
    for (const ListedPicture& picture : pictures) sum += picture.numbers[i];
    scales[i].mean = sum / pictures_count;
    for (const ListedPicture& picture : pictures) squares += std::pow(picture.numbers[i] - scales[i].mean, 2);
    if (squares > 0.0) scales[i].deviation = std::sqrt(squares / pictures_count);
  }
  return scales;
}

/// Puts each split in random order, and moves the validation share out of the first split.
void shuffle_and_share(PictureSplits& all, const PictureConversionOptions& options) {
  const std::size_t count = all.splits.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<ListedPicture>& pictures = all.splits[i].pictures;
    const double share = i == 0 ? options.validation_share : 0.0;
    SharedPictures parts = share_out(pictures, all.classes.size(), share, options.seed);
    if (share > 0.0 && parts.taken.empty()) {
      fail(ExitCode::usage, "--validation-share {}: selects none of the {} pictures: increase it", share,
           pictures.size());
    }
    pictures = std::move(parts.kept);
    if (share > 0.0) all.splits.push_back({validation_split, std::move(parts.taken), true});
  }
}

}  // namespace

ClassFolders find_class_folders(const fs::path& input, FolderLayout layout) {
  ClassFolders found{.classes = {}, .splits = find_split_folders(input, layout)};
  const fs::path& training = found.splits ? found.splits->splits.front().folder : input;
  PictureList list = list_pictures(training);
  check_classes(list, training);
  found.classes = std::move(list.classes);
  return found;
}

namespace {

/// Writes one split, and removes the skipped pictures from `split`.
CompleteSplit write_split(NamedSplit& split, const DatasetInfo& info, const PictureConversion& conversion,
                          const fs::path& output, const ConversionReports& reports,
                          std::map<Unusable, std::size_t>& skipped) {
  std::vector<bool> is_skipped(split.pictures.size());
  const auto skip = [&](std::size_t i, const UnusablePicture& unusable) {
    std::error_code error;
    const bool has_copy = unusable.reason() == Unusable::unsupported && !conversion.reads_copies &&
                          fs::exists(converted_copy(split.pictures[i].path), error);
    if (!has_copy && !conversion.skip_damaged) return false;
    is_skipped[i] = true;
    if (has_copy) return true;  // the list also contains the copy, so the copy is used instead of this picture
    ++skipped[unusable.reason()];
    reports.warn(std::string("skipped: ") + unusable.what());
    return true;
  };
  CompleteSplit complete = make_picture_shards(split.name, split.pictures, info, conversion, output, skip,
                                               reports.progress(split.name, split.pictures.size()));
  std::vector<ListedPicture> written;
  for (std::size_t i = 0; i < is_skipped.size(); ++i) {
    if (!is_skipped[i]) written.push_back(std::move(split.pictures[i]));
  }
  split.pictures = std::move(written);
  return complete;
}

}  // namespace

ConvertedPictures convert_pictures(const PictureConversionOptions& options, const fs::path& input,
                                   const fs::path& output, const ConversionReports& reports) {
  check_options(options);
  const std::optional<DatasetInfo> earlier = earlier_records(output);
  PictureConversion conversion = options.conversion;
  conversion.background = background_for(options, earlier, output);
  std::error_code error;
  conversion.reads_copies = !options.targets.empty() || !fs::is_directory(input, error);
  std::optional<KnownTargets> known;
  if (earlier) known = {earlier->target, {earlier->classes, fmt::format("{} in the output", dataset_info_name)}};
  PictureSplits all = list_splits(options, input, known, reports);
  shuffle_and_share(all, options);
  DatasetInfo info = info_of(all.target, all.classes, conversion.background);
  const bool sets_scales = all.target == TargetKind::numbers && (!earlier || all.splits.front().name == train_split);
  if (sets_scales) {
    info.scales.resize(all.classes.size());
  } else if (earlier) {
    info.scales = earlier->scales;
  }
  check_dataset_info(info);
  std::vector<SplitSize> sizes;
  for (const NamedSplit& split : all.splits) sizes.push_back({split.name, split.pictures.size()});
  if (options.names_split && !options.overwrites) {
    for (const SplitSize& split : sizes) check_split_is_new(split.name, output);
  }
  check_shards(sizes, conversion.shard_count, output);
  if (!options.names_split) check_no_other_split(sizes, output);
  ConvertedPictures converted{.target = all.target, .classes = all.classes};
  std::vector<CompleteSplit> complete;
  for (NamedSplit& split : all.splits) {
    const std::size_t count = split.pictures.size();
    const std::vector<std::size_t> before = class_counts(split.pictures, all);
    complete.push_back(write_split(split, info, conversion, output, reports, converted.skipped));
    if (split.pictures.empty()) {
      const bool are_damaged = converted.skipped.size() == 1 && converted.skipped.contains(Unusable::damaged);
      fail(ExitCode::data, "{}: every picture of the split {} is {} ({})", text_of(input), split.name,
           are_damaged ? "damaged" : "unusable", count_text(count, "picture"));
    }
    check_skipped(split, before, all, input, reports);
  }
  if (sets_scales) info.scales = scales_of(all.splits.front().pictures, all.classes.size());
  publish(output, complete, make_dataset_info(output, info));
  warn_of_small_classes(all, reports);
  for (std::size_t i = 0; i < all.splits.size(); ++i) {
    converted.splits.push_back({all.splits[i].name, std::move(complete[i].written)});
  }
  return converted;
}

}  // namespace carillon
