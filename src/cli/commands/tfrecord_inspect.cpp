// tfrecord_inspect: summarises the contents of TFRecord files of tf.train.Example, and finds the first damage.
#include <unistd.h>

#include <atomic>
#include <limits>
#include <map>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/record.h"
#include "carillon/images/decode.h"
#include "src/cli/commands/commands.h"
#include "src/cli/options/option_set.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/decode/shown_records.h"
#include "src/data/records/example_proto.h"
#include "src/data/records/record_files.h"
#include "src/data/records/unfinished_conversion.h"

namespace carillon {
namespace {

constexpr const char* usage =
    R"(Prints for each TFRecord file (plain or GZIP) the numbers of records and bytes, for each feature its kind, the number
of records that have it and its number of values, and the histogram of the labels. Stops at the first damage and prints
its file, record number and byte offset (in the decompressed data of a GZIP file).

--index writes a file records.index with the byte offsets of all records to each directory of the files. With it, a
training opens thousands of large files without reading them. The entry of a file is valid until its size or
modification time changes.

--show N draws N records, spread evenly over the files, with their labels, side by side, to a PNG file.)";

/// Summary of one feature over all records of a file.
struct FeatureSummary {
  std::string_view kind;
  std::size_t record_count = 0;
  std::size_t min_values = 0, max_values = 0;  // number of values per record
  std::size_t min_bytes = 0, max_bytes = 0;    // length of each value of a bytes feature
};

struct FileSummary {
  std::size_t record_count = 0;
  std::uint64_t data_bytes = 0;
  std::map<std::string, FeatureSummary> features;
  std::map<std::int64_t, std::size_t> labels;  // number of records by label
};

std::size_t value_count(const proto::Feature& feature) {
  return static_cast<std::size_t>(feature.bytes_list().value_size() + feature.float_list().value_size() +
                                  feature.int64_list().value_size());
}

void add_feature(FeatureSummary& summary, const proto::Feature& feature) {
  const bool first = summary.record_count++ == 0;
  const auto widen = [](bool fresh, std::size_t value, std::size_t& min, std::size_t& max) {
    min = fresh ? value : std::min(min, value);
    max = fresh ? value : std::max(max, value);
  };
  const std::string_view kind = kind_name(feature.kind_case());
  summary.kind = first || summary.kind == kind ? kind : "mixed";
  bool first_value = first || summary.max_values == 0;
  widen(first, value_count(feature), summary.min_values, summary.max_values);
  for (const std::string& value : feature.bytes_list().value()) {
    widen(first_value, value.size(), summary.min_bytes, summary.max_bytes);
    first_value = false;
  }
}

void add_record(FileSummary& summary, const proto::Example& example) {
  for (const auto& [key, feature] : example.features().feature()) {
    add_feature(summary.features[key], feature);
    const bool is_label = key == "label" || key == DatasetInfo{}.keys.label;
    if (!is_label) continue;
    for (const std::int64_t label : feature.int64_list().value()) ++summary.labels[label];
  }
}

/// Decodes the whole picture, if the record has one. Errors: data (the picture is damaged).
void verify_picture(const proto::Example& example, DecodedPart& memory) {
  const std::string key = DatasetInfo{}.keys.image;
  const auto found = example.features().feature().find(key);
  if (found == example.features().feature().end()) return;
  for (const std::string& file : found->second.bytes_list().value()) {
    try {
      decode_whole({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, memory);
    } catch (const Error& error) {
      fail(error.code(), "feature '{}' {}", key, error.what());
    }
  }
}

FileSummary summarise(RecordReader& reader, bool verify) {
  FileSummary summary;
  proto::Example example;
  DecodedPart memory;
  for (Record record; reader.next(record); ++summary.record_count) {
    summary.data_bytes += record.data.size();
    try {
      parse_generated(record.data, example);
      if (verify) verify_picture(example, memory);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", describe_record(reader.path(), record), error.what());
    }
    add_record(summary, example);
  }
  return summary;
}

std::string range(std::size_t min, std::size_t max) {
  return min == max ? fmt::format("{}", min) : fmt::format("{}..{}", min, max);
}

void print_features(const FileSummary& summary) {
  std::size_t name_width = 7;
  for (const auto& [name, feature] : summary.features) name_width = std::max(name_width, printable_key(name).size());
  fmt::print("  {:<{}}  {:<6} {:>10} {:>12}  {}\n", "feature", name_width, "kind", "records", "values each",
             "bytes per value");
  for (const auto& [name, feature] : summary.features)
    fmt::print("  {:<{}}  {:<6} {:>10} {:>12}  {}\n", printable_key(name), name_width, feature.kind,
               feature.record_count, range(feature.min_values, feature.max_values),
               feature.kind == "bytes" ? range(feature.min_bytes, feature.max_bytes) : "");
}

/// Returns the number of columns that a text fills in a terminal, if each of its UTF-8 characters fills one column.
std::size_t column_count(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Prints the histogram of the labels, with class names if `info` has them.
void print_labels(const FileSummary& summary, const std::optional<DatasetInfo>& info) {
  constexpr std::size_t max_rows = 100, bar_width = 40;
  std::vector<std::string> names;
  std::size_t most = 0, width = 10;
  for (const auto& [label, count] : summary.labels) {
    most = std::max(most, count);
    if (names.size() == max_rows) continue;
    names.push_back(printable(class_text(label, info)));
    width = std::max(width, column_count(names.back()));
  }
  fmt::print("  {:>{}} {:>10}\n", info ? "class" : "label", width, "records");
  auto name = names.begin();
  for (const auto& [label, count] : summary.labels) {
    if (name == names.end()) {
      fmt::print("  and {} more {}\n", summary.labels.size() - max_rows, info ? "classes" : "labels");
      break;
    }
    const std::string padding(width - column_count(*name), ' ');
    fmt::print("  {}{} {:>10}  {}\n", padding, *name, count, std::string((count * bar_width + most - 1) / most, '#'));
    ++name;
  }
}

/// Returns the description of the records in a file. Returns an empty result if the file has no description, or if the
/// description belongs to other records.
std::optional<DatasetInfo> info_for(const std::string& path, const FileSummary& summary) {
  std::optional<DatasetInfo> info = read_dataset_info(std::filesystem::path(path).parent_path());
  if (info && !summary.features.contains(info->keys.label)) info.reset();
  return info;
}

void inspect(const std::string& path, bool verify) {
  RecordReader reader(path, verify ? RecordCheck::data : RecordCheck::framing);
  const FileSummary summary = summarise(reader, verify);
  fmt::print("{}\n  {} records, {} bytes of data, {} bytes on disk{}; {}\n", printable(path), summary.record_count,
             summary.data_bytes, reader.file_bytes(), reader.gzip() ? " (GZIP)" : "",
             verify ? "all checksums right" : "checksums of lengths right, of data not checked");
  if (!summary.features.empty()) print_features(summary);
  if (!summary.labels.empty()) print_labels(summary, info_for(path, summary));
}

void write_indices(const std::vector<std::string>& files) {
  const bool on_terminal = !is_dumb_terminal() && ::isatty(STDERR_FILENO) != 0;
  std::atomic<std::size_t> done = 0;
  const auto progress = [&](std::size_t) {
    const std::size_t count = ++done;
    if (on_terminal)
      fmt::print(stderr, "\rindexed {}/{} files{}", count, files.size(), count == files.size() ? "\n" : "");
  };
  std::vector<IndexedFile> indexed = index_files(files, progress);
  std::map<std::filesystem::path, FileIndex> by_directory;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path path = files[i];
    by_directory[path.parent_path()][path.filename().string()] = std::move(indexed[i]);
  }
  for (const auto& [directory, index] : by_directory) {
    write_index_file(directory, index);
    std::size_t records = 0;
    for (const auto& [name, file] : index) records += file.offsets.size();
    fmt::print("{}: {} records of {} files\n", printable((directory / index_file_name).string()), records,
               index.size());
  }
}

void show(const std::vector<std::string>& files, std::int64_t count, const std::string& output) {
  constexpr std::int64_t most = 10'000;
  if (count < 1 || count > most) fail(ExitCode::usage, "--show {}: must be 1 to {}", count, most);
  if (output.empty()) fail(ExitCode::usage, "--show requires --output SHEET.png");
  check_output(output);
  const std::string png = encode_png(record_sheet(files, static_cast<std::size_t>(count)));
  write_file_atomically(output, std::as_bytes(std::span(png)));
  fmt::print("wrote {}\n", printable(output));
}

struct InspectOptions {
  bool verify = false, index = false, allow_missing_shards = false;
  std::int64_t shown = 0;
  std::string output;
};

OptionSet option_set(InspectOptions& o) {
  OptionSet set({.program = "tfrecord_inspect",
                 .purpose = "Summarises TFRecord files of tf.train.Example, and finds the first damage",
                 .synopses = {"tfrecord_inspect [--verify] FILE...", "tfrecord_inspect --index FILE...",
                              "tfrecord_inspect --show N --output SHEET.png FILE..."},
                 .description = usage,
                 .exit_statuses = {{0, "no damage"},
                                   {64, "bad usage"},
                                   {65, "damaged or unsuitable file"},
                                   {66, "input file missing"},
                                   {74, "I/O error"}}});
  set.use_command_line_only();
  set.set_version(version_line("tfrecord_inspect") + "\n");
  set.add("verify", o.verify, "also check the checksums of the data, and decode pictures");
  set.add("allow-missing-shards", o.allow_missing_shards, missing_shards_help);
  set.add("index", o.index, "write records.index to the directories of the files");
  set.add("show", o.shown, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
          "records to draw (--output)");
  set.add("output", o.output, "PNG file to draw to (--show)").value_name = "FILE";
  return set;
}

int inspect_main(int argc, char** argv) {
  InspectOptions options;
  std::vector<std::string> files;
  OptionSet set = option_set(options);
  if (!set.parse_or_answer(argc, argv, files)) return 0;
  if (files.empty()) fail(ExitCode::usage, "no files (see --help)");
  check_conversions_finished(files);
  if (!options.allow_missing_shards) check_shards_exist(files);
  if (set.given("show")) {
    for (const auto& [is_given, other] : {std::pair(options.index, "index"), {options.verify, "verify"}}) {
      if (is_given) fail(ExitCode::usage, "--show only draws records: remove --{}", other);
    }
    show(files, options.shown, options.output);
    return 0;
  }
  if (!options.output.empty()) fail(ExitCode::usage, "--output requires --show (see --help)");
  if (options.index) {
    if (options.verify) fail(ExitCode::usage, "--index reads no data, so --verify has none to check: give one of them");
    write_indices(files);
    return 0;
  }
  for (const std::string& file : files) inspect(file, options.verify);
  return 0;
}

}  // namespace

int tfrecord_inspect_main(int argc, char** argv) {
  return single_process_main("tfrecord_inspect", [&] { return inspect_main(argc, argv); });
}

}  // namespace carillon
