#include "src/train/input/records.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "carillon/core/error.h"
#include "src/core/crc32c.h"
#include "src/core/file_tools.h"
#include "src/core/resources.h"
#include "src/core/text.h"
#include "src/data/records/record_files.h"
#include "src/data/records/unfinished_conversion.h"
#include "src/report/console.h"
#include "src/train/control/agreement.h"

namespace carillon {
namespace {

/// Records [begin, end): the part that belongs to one rank or thread.
struct Part {
  std::size_t begin, end;
};

Part part_of(std::size_t count, std::size_t number, std::size_t parts) {
  return {count * number / parts, count * (number + 1) / parts};
}

Part part_of_rank(const Dataset& dataset, const std::vector<std::uint64_t>& shares, const Mpi& mpi) {
  const auto rank = static_cast<std::size_t>(mpi.rank());
  if (shares.empty()) return part_of(dataset.size(), rank, static_cast<std::size_t>(mpi.size()));
  return {shares[rank], rank + 1 < shares.size() ? shares[rank + 1] : dataset.size()};
}

/// Returns the number of bytes that ranks exchange for one record: a byte that is 1 if the record is sound, and then
/// the target of the record.
std::size_t entry_bytes(const Dataset& dataset) { return 1 + dataset.target_bytes(); }

/// Reads the targets of this rank's part with several threads. If records are damaged, throws the error of the first
/// damaged record.
std::string read_part(const Dataset& dataset, const Part& part, const TargetReading& reading) {
  const std::size_t bytes = entry_bytes(dataset), count = part.end - part.begin;
  const auto thread_count = static_cast<std::size_t>(std::max(reading.thread_count, 1));
  std::string entries(count * bytes, '\0');
  std::vector<std::exception_ptr> errors(thread_count);
  std::atomic<std::size_t> done = 0, ended = 0;
  std::atomic<std::size_t> failed = thread_count;  // number of the lowest thread that failed; threads with higher
                                                   // numbers may stop
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < thread_count; ++t) {
      threads.emplace_back([&, t] {
        const auto [begin, end] = part_of(count, t, thread_count);
        try {
          for (std::size_t i = begin; i < end && failed >= t; ++i, ++done) {
            const std::span<char> entry = std::span(entries).subspan(i * bytes, bytes);
            entry[0] = dataset.read_target(part.begin + i, std::as_writable_bytes(entry.subspan(1))) ? 1 : 0;
          }
        } catch (...) {
          errors[t] = std::current_exception();
          for (std::size_t before = failed; t < before && !failed.compare_exchange_weak(before, t);) {
          }
        }
        ++ended;
      });
    }
    for (std::size_t before = 0; ended < thread_count;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (const std::size_t now = done; now != std::exchange(before, now)) reading.heartbeat();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return entries;
}

/// Appends the sound records of `entries`, which begin with record `first`.
void append(RecordTargets& found, std::string_view entries, std::size_t first, std::size_t bytes) {
  for (std::size_t i = 0; i * bytes < entries.size(); ++i) {
    if (entries[i * bytes] == 0) continue;
    const auto target = std::as_bytes(std::span(entries)).subspan(i * bytes + 1, bytes - 1);
    found.records.push_back(static_cast<std::uint32_t>(first + i));
    found.targets.insert(found.targets.end(), target.begin(), target.end());
  }
}

}  // namespace

RecordTargets read_targets(const Dataset& dataset, const TargetReading& reading, const Mpi& mpi) {
  RecordTargets found;
  std::array<std::int64_t, 1> ranks_that_read{dataset.in_memory() ? 0 : 1};  // in_memory() may differ between hosts
  mpi.sum(ranks_that_read);
  if (ranks_that_read[0] == 0) {
    const std::span<const std::byte> targets = dataset.targets();
    found.targets.assign(targets.begin(), targets.end());
    for (std::size_t i = 0; i < dataset.size(); ++i) found.records.push_back(static_cast<std::uint32_t>(i));
    return found;
  }
  std::string own;
  mpi.run_on_all([&] { own = read_part(dataset, part_of_rank(dataset, reading.shares, mpi), reading); });
  std::size_t first = 0;
  for (const std::string& entries : mpi.all_gather(own)) {
    append(found, entries, first, entry_bytes(dataset));
    first += entries.size() / entry_bytes(dataset);
  }
  mpi.run_on_all([&] {
    if (found.records.empty()) fail(ExitCode::data, "{}: all training records are damaged", dataset.name_of(0));
  });
  return found;
}

std::shared_ptr<const RecordGroups> records_by_group(
    const RecordTargets& found, const std::function<std::int64_t(std::span<const std::byte> target)>& group_of) {
  const std::size_t bytes = found.targets.size() / found.records.size();
  std::map<std::int64_t, std::vector<std::uint32_t>> groups;
  for (std::size_t i = 0; i < found.records.size(); ++i) {
    groups[group_of(std::span(found.targets).subspan(i * bytes, bytes))].push_back(found.records[i]);
  }
  auto result = std::make_shared<RecordGroups>();
  for (auto& [number, records] : groups) result->push_back(std::move(records));
  return result;
}

namespace {

Dataset open(const DataOptions& data, RecordOptions records, const Mpi& mpi) {
  records.by_file = data.sharding == Sharding::file;
  records.skips_damaged = data.skip_damaged;
  if (data.skip_damaged || records.by_file) records.cache = CacheMode::none;
  return open_records(data.files, data.record_form, RecordUse::training, records, mpi);
}

}  // namespace

TrainingRecords::TrainingRecords(const TrainOptions& options, RecordOptions records, int decode_threads, const Mpi& mpi)
    : options_(options),
      mpi_(mpi),
      decode_threads_(decode_threads),
      heartbeat_(records.heartbeat),
      dataset_(open(options.data, std::move(records), mpi)) {
  const DataOptions& data = options_.data;
  mpi_.run_on_all([&] {
    if (data.sharding == Sharding::file) order_.shares = dataset_.shares_of_files(mpi_.size());
    check_prefetch_bytes();
  });
  order_.seed = options_.model.seed;
  order_.shuffle = data.shuffle;
  order_.window = static_cast<std::uint64_t>(data.shuffle_window);
  order_.tower_batch = static_cast<std::uint64_t>(data.batch_size);
  warn_of_reading();
  if (!data.skip_damaged || dataset_.in_memory()) return;
  dataset_.skip_damaged([rank = mpi_.rank()](const std::string& what) {
    print_warning(fmt::format("rank {}: skipped: {}", rank, what));
  });
}

void TrainingRecords::use_targets(Task& task) {
  const bool balances = options_.data.sampling == Sampling::balanced;
  if (!task.loss_of_records && !balances) return;
  const RecordTargets found =
      read_targets(dataset_, {.shares = order_.shares, .thread_count = decode_threads_, .heartbeat = heartbeat_}, mpi_);
  mpi_.run_on_all([&] {
    if (task.loss_of_records) task.loss = task.loss_of_records(found.targets);
    if (balances) order_.groups = records_by_group(found, task.group_of);
  });
}

BatchLoader TrainingRecords::loader_from(std::uint64_t stream_position) {
  const auto batch = static_cast<std::uint64_t>(options_.data.batch_size);
  order_.origin = stream_position;
  return BatchLoader(dataset_, SampleOrder(dataset_.size(), order_),
                     StreamSlice{.start = stream_position,
                                 .global_batch = batch * mpi_.size(),
                                 .tower_offset = batch * mpi_.rank(),
                                 .batch_size = static_cast<std::size_t>(batch)},
                     prefetch());
}

std::string TrainingRecords::name_at(std::uint64_t stream_position) const {
  SampleOrder order(dataset_.size(), order_);
  return dataset_.name_of(order.record_at(stream_position));
}

void TrainingRecords::warn_of_reading() const {
  if (mpi_.rank() != 0) return;
  const bool one_host = mpi_.local_size() == mpi_.size();
  if (order_.window > 0 && order_.shares.empty() && options_.data.stage.empty() && !one_host && !dataset_.in_memory()) {
    print_warning("--shuffle-window: each host reads all files; with --sharding file or --stage it reads less");
  }
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < order_.shares.size(); ++i) {
    counts.push_back((i + 1 < order_.shares.size() ? order_.shares[i + 1] : dataset_.size()) - order_.shares[i]);
  }
  const auto [least, most] = std::ranges::minmax_element(counts);
  if (counts.empty() || *most <= *least + *least / 10) return;
  print_warning(fmt::format(
      "--sharding file: the files of a rank have {} to {} records; a rank with fewer uses each of them more often",
      *least, *most));
}

void TrainingRecords::check_prefetch_bytes() const {
  if (dataset_.in_memory() || options_.data.prefetch_bytes == 0) return;
  const auto limit = static_cast<std::uint64_t>(options_.data.prefetch_bytes), memory = total_memory_bytes();
  const std::uint64_t two_batches = 2 * static_cast<std::uint64_t>(options_.data.batch_size) * dataset_.image_bytes();
  if (limit < two_batches) {
    fail(ExitCode::usage, "--prefetch-bytes {}: two batches of decoded images have {} bytes: increase it", limit,
         two_batches);
  }
  const auto ranks = static_cast<std::uint64_t>(mpi_.local_size());
  if (limit <= memory / ranks) return;
  fail(ExitCode::usage, "--prefetch-bytes {}: {} has {} bytes of memory for {}", limit, mpi_.host(), memory,
       count_text(ranks, "rank"));
}

PrefetchSettings TrainingRecords::prefetch() const {
  PrefetchSettings settings{.thread_count = decode_threads_,
                            .bytes = static_cast<std::size_t>(options_.data.prefetch_bytes),
                            .heartbeat = heartbeat_};
  // Each rank of a host takes samples from the whole window.
  if (options_.data.sharding == Sharding::record) {
    settings.part = {static_cast<std::size_t>(mpi_.local_rank()), static_cast<std::size_t>(mpi_.local_size())};
  }
  return settings;
}

namespace {

/// Indexes the files that are not in `index` and that belong to this rank's part. Returns their index.
FileIndex own_part(const std::vector<std::string>& paths, const FileIndex& index, const Mpi& mpi) {
  std::vector<std::string> own;
  int number = 0;
  for (const std::string& path : paths) {
    if (!index.contains(path) && number++ % mpi.size() == mpi.rank()) own.push_back(path);
  }
  std::vector<IndexedFile> files = index_files(own, [](std::size_t) {});
  FileIndex found;
  for (std::size_t i = 0; i < own.size(); ++i) found.emplace(own[i], std::move(files[i]));
  return found;
}

}  // namespace

FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi) {
  std::string known;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) known = index_bytes(known_files(paths));
  });
  FileIndex index = parse_index(mpi.all_gather(known).front());
  std::string found;
  mpi.run_on_all([&] { found = index_bytes(own_part(paths, index, mpi)); });
  for (const std::string& part : mpi.all_gather(found)) index.merge(parse_index(part));
  return index;
}

namespace {

/// Replaces the paths `from` in `index` by the paths `to`, and drops all other entries.
FileIndex moved(FileIndex index, const std::vector<std::string>& from, const std::vector<std::string>& to) {
  FileIndex result;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (auto entry = index.extract(from[i])) result.emplace(to[i], std::move(entry.mapped()));
  }
  return result;
}

}  // namespace

Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi) {
  const RecordKeys keys{.image = options.image_key, .target = options.target_key};
  if (is_synthetic(patterns)) return Dataset::synthetic(form.decoder(keys, use));

  std::vector<std::string> paths;
  std::shared_ptr<const RecordDecoder> decoder;
  CacheMode cache = options.cache;  // decided only once, because the available memory changes
  std::array<std::int64_t, 1> ranks_that_index{};
  mpi.run_on_all([&] {
    paths = expand_file_patterns(patterns);
    decoder = form.decoder(keys, use);
    if (Dataset::would_cache(paths, *decoder, cache, mpi.local_size())) return;
    cache = CacheMode::none;
    ranks_that_index[0] = 1;
  });
  std::string names;  // file names without directories, because directories may differ between hosts
  for (const std::string& path : paths) names += std::filesystem::path(path).filename().string() + '\n';
  require_equal_on_all_ranks(
      mpi, {{"number of data files", paths.size()},
            {"checksum of the data files' names", std::uint64_t{crc32c(std::as_bytes(std::span(names)))}}});
  mpi.sum(ranks_that_index);
  FileIndex index;
  if (ranks_that_index[0] > 0) index = share_index(paths, mpi);
  if (!options.stage.empty()) {
    std::vector<std::string> staged = stage_files(paths, {options.stage, options.by_file, options.heartbeat}, mpi);
    index = moved(std::move(index), paths, staged);
    paths = std::move(staged);
  }
  std::optional<Dataset> dataset;
  const DamagedSamples damaged = options.skips_damaged ? DamagedSamples::ignore : DamagedSamples::refuse;
  mpi.run_on_all([&] { dataset = Dataset::open(paths, decoder, cache, mpi.local_size(), std::move(index), damaged); });
  return std::move(*dataset);
}

void check_no_folders(const std::vector<std::string>& patterns, std::span<const std::string_view> splits) {
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (!std::filesystem::is_directory(pattern, error)) continue;
    fail(ExitCode::data, "{}: is a directory; {}", pattern, record_files_hint(pattern, splits));
  }
}

void check_shards(const DataOptions& data, const std::vector<std::string>& patterns) {
  if (is_synthetic(patterns) || patterns.empty()) return;
  const std::vector<std::string> paths = expand_file_patterns(patterns);
  check_conversions_finished(paths);
  if (!data.allow_missing_shards) check_shards_exist(paths);
}

void warn_of_shared_files(const DataOptions& data) {
  if (data.eval_files.empty() || is_synthetic(data.files) || is_synthetic(data.eval_files)) return;
  std::set<std::pair<dev_t, ino_t>> trained;
  const auto identity = [](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(std::pair(status.st_dev, status.st_ino)) : std::nullopt;
  };
  for (const std::string& path : expand_file_patterns(data.files)) {
    if (const auto file = identity(path)) trained.insert(*file);
  }
  std::vector<std::string> shared;
  for (const std::string& path : expand_file_patterns(data.eval_files)) {
    if (const auto file = identity(path); file && trained.contains(*file)) shared.push_back(path);
  }
  if (shared.empty()) return;
  print_warning(
      fmt::format("--data and --eval-data both contain {}{}: the evaluations measure records that the training "
                  "uses",
                  shared.front(), shared.size() > 1 ? fmt::format(" and {} more", shared.size() - 1) : ""));
}

void check_files_exist(const std::vector<std::string>& patterns) {
  if (is_synthetic(patterns)) return;
  for (const std::string& path : expand_file_patterns(patterns)) {
    if (!stamp_of(std::filesystem::path(path))) fail(ExitCode::no_input, "{}: no such file", path);
  }
}

}  // namespace carillon
