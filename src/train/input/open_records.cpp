#include "src/train/input/open_records.h"

#include <array>
#include <filesystem>
#include <optional>

#include "src/core/crc32c.h"
#include "src/data/records/file_pattern.h"
#include "src/train/control/agreement.h"
#include "src/train/input/staging.h"

namespace carillon {
namespace {

/// The index of this rank's part of the files that `index` lacks.
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

/// `index` with the present paths of the files.
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
  CacheMode cache = options.cache;  // decided once, because the available memory changes
  std::array<std::int64_t, 1> ranks_that_index{};
  mpi.run_on_all([&] {
    paths = expand_file_patterns(patterns);
    decoder = form.decoder(keys, use);
    if (Dataset::would_cache(paths, *decoder, cache, mpi.local_size())) return;
    cache = CacheMode::none;
    ranks_that_index[0] = 1;
  });
  std::string names;  // without directories, which may differ between hosts
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

}  // namespace carillon
