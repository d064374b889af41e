#include "src/data/convert/convert_pictures.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/images/decode.h"
#include "src/core/text.h"
#include "src/data/convert/picture_list.h"
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

/// The description of the records that this module writes, without scales.
DatasetInfo info_of(TargetKind target, const std::vector<std::string>& classes, const Colour& background) {
  DatasetInfo info{.classes = classes, .background = background, .target = target};
  if (target == TargetKind::numbers) info.keys.label = numbers_key;
  return info;
}

/// The description of the records in `output`, if there are some. Errors: usage (they have other keys).
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

/// Errors: usage (the records in `output` have another background).
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

/// Requires that `output` has no files of other splits: they may hold the same pictures from an earlier conversion.
/// Errors: usage.
void check_no_other_split(const std::vector<SplitSize>& written, const fs::path& output) {
  for_each_shard(output, [&](const fs::path& path, const std::string& name) {
    if (std::ranges::any_of(written, [&](const SplitSize& split) { return is_shard_of(name, split.name); })) return;
    fail(ExitCode::usage,
         "{}: belongs to another split and may hold the same pictures: remove it, or name the split to write with "
         "--split",
         text_of(path));
  });
}

/// Checks that the output does not contain this split. Errors: usage.
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
};

struct PictureSplits {
  TargetKind target = TargetKind::class_index;
  std::vector<std::string> classes;
  std::vector<NamedSplit> splits;
  std::string small_classes;
};

void note_ignored(const PictureList& list, const fs::path& folder, const ConversionReports& reports) {
  if (list.passed_over == 0) return;
  reports.warn(fmt::format("ignored {} in {}: no picture ({}) in the folder of a class",
                           count_text(list.passed_over, "file"), text_of(folder), picture_endings));
}

/// Errors: data (fewer than two classes).
void check_classes(const PictureList& list, const fs::path& input) {
  if (list.classes.size() >= 2) return;
  const fs::path folder = input / list.classes.front();
  std::error_code error;
  const bool has_folders = fs::is_directory(folder, error) && has_class_folders(folder);
  fail(ExitCode::data, "{}: contains only the class '{}', and a classifier requires at least two{}", text_of(input),
       list.classes.front(),
       has_folders ? fmt::format("; if its folders are the classes, use --input {}", text_of(folder)) : "");
}

/// Classes or labels with few pictures. Empty if there are none.
std::string text_of_small_classes(const PictureList& list) {
  if (list.target == TargetKind::numbers) return "";
  constexpr std::size_t most_names = 5;
  std::vector<std::size_t> counts(list.classes.size());
  for (const ListedPicture& picture : list.pictures) {
    if (list.target == TargetKind::class_index) ++counts[picture.class_index];
    for (const std::size_t label : picture.labels) ++counts[label];
  }
  std::string names;
  std::size_t small = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] >= few_pictures || small++ >= most_names) continue;
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", list.classes[i], counts[i]);
  }
  if (small > most_names) names += fmt::format(" and {} more", small - most_names);
  return names;
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
      all.small_classes = text_of_small_classes(list);
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

/// Reports how many pictures of the folder are not in the CSV file, and columns in which all numbers are equal.
void note_unlisted(const PictureList& list, const fs::path& folder, const PictureConversionOptions& options,
                   const ConversionReports& reports) {
  std::error_code error;
  std::size_t found = 0;
  for (fs::recursive_directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    found += is_picture_name(file->path()) ? 1 : 0;
  }
  if (found > list.pictures.size()) {
    reports.note(fmt::format("{} of the {} pictures in {} are not in {}", found - list.pictures.size(), found,
                             text_of(folder), text_of(options.targets)));
  }
  if (list.target != TargetKind::numbers) return;
  for (std::size_t column = 0; column < list.classes.size(); ++column) {
    const float first = list.pictures.front().numbers[column];
    const auto is_first = [&](const ListedPicture& picture) { return picture.numbers[column] == first; };
    if (std::ranges::all_of(list.pictures, is_first)) {
      reports.warn(fmt::format("the number {} is {} in all pictures", text_of(list.classes[column]), first));
    }
  }
}

PictureSplits list_target_splits(const PictureConversionOptions& options, const fs::path& input,
                                 const std::optional<KnownTargets>& known, const ConversionReports& reports) {
  PictureList list = list_targets(options.targets, input, options.target, known);
  reports.note(fmt::format("{}: {} pictures with {} {} ({})", text_of(options.targets), list.pictures.size(),
                           list.classes.size(), target_words(list.target), task_name(list.target)));
  note_unlisted(list, input, options, reports);
  if (list.target == TargetKind::class_index) check_classes(list, options.targets);
  std::string small_classes = options.split == train_split ? text_of_small_classes(list) : "";
  return {list.target, std::move(list.classes), {{options.split, std::move(list.pictures)}}, std::move(small_classes)};
}

/// Lists the pictures of each split, in the order of the input.
PictureSplits list_splits(const PictureConversionOptions& options, const fs::path& input,
                          const std::optional<KnownTargets>& earlier, const ConversionReports& reports) {
  if (!options.targets.empty()) return list_target_splits(options, input, earlier, reports);
  const KnownClasses known = earlier ? earlier->classes : KnownClasses{};
  if (earlier && earlier->target != TargetKind::class_index) {
    fail(ExitCode::usage, "{} has the task {}, which requires --targets", known.source, task_name(earlier->target));
  }
  if (const std::optional<SplitFolders> folders = find_split_folders(input)) {
    return list_split_folders(options, *folders, input, known, reports);
  }
  PictureList list = list_pictures(input, known);
  note_ignored(list, input, reports);
  check_classes(list, input);
  std::string small_classes = options.split == train_split ? text_of_small_classes(list) : "";
  return {list.target, std::move(list.classes), {{options.split, std::move(list.pictures)}}, std::move(small_classes)};
}

/// The mean and the deviation of each number. The deviation of equal numbers counts as 1.
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
    if (share > 0.0) all.splits.push_back({validation_split, std::move(parts.taken)});
  }
}

}  // namespace

void check_class_folders(const fs::path& input) {
  const std::optional<SplitFolders> folders = find_split_folders(input);
  const fs::path& training = folders ? folders->splits.front().folder : input;
  check_classes(list_pictures(training), training);
}

ConvertedPictures convert_pictures(const PictureConversionOptions& options, const fs::path& input,
                                   const fs::path& output, const ConversionReports& reports) {
  check_options(options);
  const std::optional<DatasetInfo> earlier = earlier_records(output);
  PictureConversion conversion = options.conversion;
  conversion.background = background_for(options, earlier, output);
  std::optional<KnownTargets> known;
  if (earlier) known = {earlier->target, {earlier->classes, fmt::format("{} in the output", dataset_info_name)}};
  PictureSplits all = list_splits(options, input, known, reports);
  shuffle_and_share(all, options);
  DatasetInfo info = info_of(all.target, all.classes, conversion.background);
  if (all.target == TargetKind::numbers) {
    const bool replaces_training = all.splits.front().name == train_split;
    info.scales =
        earlier && !replaces_training ? earlier->scales : scales_of(all.splits.front().pictures, all.classes.size());
  }
  check_dataset_info(info);
  std::vector<SplitSize> sizes;
  for (const NamedSplit& split : all.splits) sizes.push_back({split.name, split.pictures.size()});
  if (options.names_split && !options.overwrites) {
    for (const SplitSize& split : sizes) check_split_is_new(split.name, output);
  }
  check_shards(sizes, conversion.shard_count, output);
  if (!options.names_split) check_no_other_split(sizes, output);
  ConvertedPictures converted{.target = all.target, .class_count = all.classes.size()};
  const auto warn = [&](const std::string& text) {
    ++converted.skipped;
    reports.warn("skipped: " + text);
  };
  std::vector<CompleteSplit> complete;
  for (const NamedSplit& split : all.splits) {
    complete.push_back(make_picture_shards(split.name, split.pictures, info, conversion, output, warn,
                                           reports.progress(split.name, split.pictures.size())));
    if (complete.back().written.record_count > 0) continue;
    fail(ExitCode::data, "{}: every picture of the split {} is damaged ({})", text_of(input), split.name,
         count_text(split.pictures.size(), "picture"));
  }
  write_dataset_info(output, info);
  publish(complete);
  if (!all.small_classes.empty()) {
    reports.warn(fmt::format("few pictures to train on, fewer than {} per {}: {}", few_pictures,
                             all.target == TargetKind::labels ? "label" : "class", all.small_classes));
  }
  for (std::size_t i = 0; i < all.splits.size(); ++i) {
    converted.splits.push_back({all.splits[i].name, std::move(complete[i].written)});
  }
  return converted;
}

}  // namespace carillon
