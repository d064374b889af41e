#include "src/data/convert/shard_writer.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/record.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/records/example_proto.h"
#include "src/data/records/unfinished_conversion.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_shard_count = 100'000;  // five digits

std::string shard_name(const std::string& split, std::size_t shard, std::size_t shard_count) {
  return fmt::format("{}-{:05}-of-{:05}.tfrecord", split, shard, shard_count);
}

/// Removes temporary files that killed conversions of this split did not complete.
void remove_abandoned(const std::string& split, const fs::path& directory) {
  const auto ours = [&](std::string_view base) {
    return is_shard_of(base, split) || base == dataset_info_name || base == class_names_file ||
           base == unfinished_conversion_name;
  };
  std::vector<fs::path> stale;
  std::error_code ignored;  // a problem with the directory is reported below, at the first write
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (is_temporary_name(entry.path().filename().string(), ours, temporary_prefix)) stale.push_back(entry.path());
  for (const fs::path& path : stale) fs::remove(path, ignored);
}

}  // namespace

bool is_shard(std::string_view name) {
  return name.find("-of-") != name.npos && name.ends_with(".tfrecord") && !name.starts_with(temporary_prefix);
}

bool is_shard_of(std::string_view name, std::string_view split) {
  return is_shard(name) && name.starts_with(std::string(split) + "-");
}

void check_shards(std::span<const SplitSize> splits, std::size_t shard_count, const fs::path& directory) {
  if (shard_count < 1 || shard_count >= max_shard_count)
    fail(ExitCode::usage, "--shards {}: must be 1 to {}", shard_count, max_shard_count - 1);
  for (const SplitSize& split : splits)
    if (shard_count > split.count)
      fail(ExitCode::usage, "--shards {}: must be at most the {} records of {}", shard_count, split.count, split.name);
  std::error_code absent;
  const std::string suffix = fmt::format("-of-{:05}.tfrecord", shard_count);
  for (const auto& entry : fs::directory_iterator(directory, absent)) {
    const std::string name = entry.path().filename().string();
    for (const SplitSize& split : splits)
      if (is_shard_of(name, split.name) && !name.ends_with(suffix))
        fail(ExitCode::usage,
             "{}: is a shard of a conversion with another --shards; remove these shards or choose another "
             "directory",
             entry.path().string());
  }
}

void check_shards(std::span<const ImageSplit> splits, std::size_t shard_count, const fs::path& directory) {
  std::vector<SplitSize> sizes;
  for (const ImageSplit& split : splits) sizes.push_back({split.name, split.count()});
  check_shards(sizes, shard_count, directory);
}

CompleteSplit make_image_shards(const ImageSplit& split, std::size_t shard_count, const fs::path& directory,
                                const ExampleEncoder& encode, const std::function<void(std::size_t)>& progress) {
  const auto make = [&](std::size_t i, std::string& record) {
    proto::Example example;
    encode(split, i, example);
    serialise(example, record);
    return true;
  };
  return make_shards(SplitSize{split.name, split.count()}, shard_count, directory, make, progress);
}

CompleteSplit make_shards(const SplitSize& split, std::size_t shard_count, const fs::path& directory,
                          const RecordMaker& make, const std::function<void(std::size_t)>& progress) {
  constexpr std::size_t flush_bytes = std::size_t{1} << 20;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(ExitCode::io, "{}: cannot create the directory: {}", directory.string(), error.message());

  remove_abandoned(split.name, directory);

  CompleteSplit complete;
  WrittenSplit& written = complete.written;
  std::string pending, serialised;
  for (std::size_t shard = 0; shard < shard_count; ++shard) {
    const fs::path path = directory / shard_name(split.name, shard, shard_count);
    NewFile& file = *complete.files.emplace_back(std::make_unique<NewFile>(path, temporary_prefix));
    const auto flush = [&] {
      file.write(std::as_bytes(std::span(pending)));
      written.bytes += pending.size();
      pending.clear();
    };
    const std::size_t end = split.count * (shard + 1) / shard_count;
    for (std::size_t i = split.count * shard / shard_count; i < end; ++i) {
      if (!make(i, serialised)) continue;
      ++written.record_count;
      append_record(pending, serialised);
      if (pending.size() >= flush_bytes) {
        flush();
        progress(i + 1);
      }
    }
    flush();
    file.finish();
    written.files.push_back(path);
  }
  progress(split.count);
  return complete;
}

void publish(const fs::path& directory, std::span<CompleteSplit> splits, std::vector<std::unique_ptr<NewFile>> others) {
  std::vector<std::unique_ptr<NewFile>> files = std::move(others);
  for (CompleteSplit& split : splits) std::ranges::move(split.files, std::back_inserter(files));
  replace_together(directory, files);
}

}  // namespace carillon
