#include "carillon/run/records.h"

#include <array>
#include <filesystem>
#include <optional>

#include "carillon/core/crc32c.h"
#include "carillon/data/file_pattern.h"
#include "carillon/run/agreement.h"
#include "src/run/shared_index.h"
#include "src/run/staging.h"

namespace carillon {
namespace {

/// `index` by the paths that files have now.
FileIndex moved(FileIndex index, const std::vector<std::string>& from, const std::vector<std::string>& to) {
  FileIndex result;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (auto entry = index.extract(from[i])) result.emplace(to[i], std::move(entry.mapped()));
  }
  return result;
}

}  // namespace

std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse /*use*/) {
  return make_grey_decoder(std::move(schema));
}

std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse /*use*/) {
  return make_planar_decoder(std::move(schema));
}

Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, RecordUse use,
                     const RecordOptions& options, const Mpi& mpi) {
  RecordSchema schema = form.schema;
  if (!options.image_key.empty()) schema.keys.image = options.image_key;
  if (!options.label_key.empty()) schema.keys.label = options.label_key;
  if (is_synthetic(patterns)) return Dataset::synthetic(schema.image_shape, schema.class_count);

  std::vector<std::string> paths;
  std::shared_ptr<const RecordDecoder> decoder;
  CacheMode cache = options.cache;  // decided once: the memory that is available changes
  std::array<std::int64_t, 1> ranks_that_index{};
  mpi.run_on_all([&] {
    paths = expand_file_patterns(patterns);
    decoder = form.make_decoder(schema, use);
    if (Dataset::would_cache(paths, *decoder, cache, mpi.local_size())) return;
    cache = CacheMode::none;
    ranks_that_index[0] = 1;
  });
  std::string names;  // hosts may have them in other places
  for (const std::string& path : paths) names += std::filesystem::path(path).filename().string() + '\n';
  agree(mpi, {{"number of data files", paths.size()},
              {"checksum of the data files' names", std::uint64_t{crc32c(std::as_bytes(std::span(names)))}}});
  mpi.sum(ranks_that_index);
  FileIndex index;
  if (ranks_that_index[0] > 0) index = share_index(paths, mpi);
  if (!options.stage.empty()) {
    std::vector<std::string> staged = stage_files(paths, {options.stage, options.by_file, options.get_on}, mpi);
    index = moved(std::move(index), paths, staged);
    paths = std::move(staged);
  }
  std::optional<Dataset> dataset;
  mpi.run_on_all([&] { dataset = Dataset::open(paths, decoder, cache, mpi.local_size(), std::move(index)); });
  return std::move(*dataset);
}

}  // namespace carillon
