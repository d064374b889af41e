#include "carillon/data/dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "carillon/core/crc32c.h"
#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "src/data/available_memory.h"
#include "src/data/file_pattern.h"
#include "src/data/image_form.h"
#include "src/data/page_array.h"

namespace carillon {
namespace {

std::int32_t decode(const std::string& path, const Record& record, const RecordSchema& schema,
                    std::span<std::uint8_t> image) {
  try {
    return decode_example(record.data, schema, image);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", describe_record(path, record), error.what());
  }
}

/// A plain file of an indexed set: it keeps its mapping.
struct IndexedFile {
  RecordReader reader;
  std::size_t first_record;
};

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

struct Dataset::Storage {
  RecordSchema schema;
  std::size_t size = 0;
  std::uint32_t fingerprint = 0;
  bool in_memory = false;

  // In memory: all images one after the other, and their labels.
  PageArray images;
  std::vector<std::int32_t> labels;

  // Indexed: where each record's data starts in a mapping.
  std::vector<IndexedFile> files;
  std::vector<const std::uint8_t*> record_data;

  void load(std::span<const std::string> paths, std::uint64_t limit_bytes);
  void index(std::span<const std::string> paths);
  void count(const Record& record);
  std::pair<const IndexedFile*, Record> indexed_record(std::size_t i) const;
};

void Dataset::Storage::count(const Record& record) {
  std::array<std::byte, sizeof(std::uint64_t) + sizeof(std::uint32_t)> identity;
  const std::uint64_t length = record.data.size();
  std::memcpy(identity.data(), &length, sizeof length);
  std::memcpy(identity.data() + sizeof length, &record.stored_crc, sizeof record.stored_crc);
  fingerprint = crc32c(identity, fingerprint);
  ++size;
}

/// Decodes all records; a file's mapping lasts until its last record.
void Dataset::Storage::load(std::span<const std::string> paths, std::uint64_t limit_bytes) {
  in_memory = true;
  for (const std::string& path : paths) {
    RecordReader reader(path);
    for (Record record; reader.next(record);) {
      std::uint8_t* image = images.append(schema.image_bytes);
      labels.push_back(decode(path, record, schema, {image, schema.image_bytes}));
      count(record);
      if (images.size() > limit_bytes)
        fail(ExitCode::usage,
             "{}: its set takes more than half of the available memory ({} MiB), and GZIP files cannot be read "
             "without the cache; decompress them, or ask for the cache in memory",
             path, limit_bytes >> 20);
    }
  }
}

void Dataset::Storage::index(std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    RecordReader reader(path, RecordCheck::framing);
    if (reader.gzip())
      fail(ExitCode::usage, "{}: a GZIP file has no random access, so it cannot be read without the cache", path);
    const std::size_t first_record = size;
    for (Record record; reader.next(record);) {
      record_data.push_back(record.data.data());
      count(record);
    }
    if (size > first_record) files.push_back({std::move(reader), first_record});
  }
}

/// Record i as its reader gave it, from the framing around its data.
std::pair<const IndexedFile*, Record> Dataset::Storage::indexed_record(std::size_t i) const {
  const auto after = std::ranges::upper_bound(files, i, {}, &IndexedFile::first_record);
  const IndexedFile& file = *std::prev(after);
  const std::uint8_t* data = record_data[i];
  Record record{.number = i - file.first_record,
                .offset = static_cast<std::uint64_t>(data - record_data[file.first_record])};
  std::uint64_t length;
  std::memcpy(&length, data - record_header_bytes, sizeof length);
  record.data = {data, length};
  std::memcpy(&record.stored_crc, data + length, sizeof record.stored_crc);
  return {&file, record};
}

namespace {

/// Whether the decoded set takes at most `limit_bytes`, judged by the first record (a set's records are much alike).
bool seems_to_fit(std::span<const std::string> paths, const RecordSchema& schema, std::uint64_t limit_bytes) {
  std::uint64_t file_bytes = 0, record_bytes = 0;
  for (const std::string& path : paths) {
    RecordReader reader(path, RecordCheck::framing);
    if (reader.gzip()) return true;  // no other way to read it; load() enforces the limit
    file_bytes += reader.file_bytes();
    if (Record record; record_bytes == 0 && reader.next(record)) record_bytes = record.data.size();
  }
  if (record_bytes == 0) return true;
  const std::uint64_t framed_bytes = record_header_bytes + record_bytes + record_footer_bytes;
  return file_bytes / framed_bytes <= limit_bytes / (schema.image_bytes + sizeof(std::int32_t));
}

/// Refuses a set of colour images that seem to be interleaved, judged by images from all over it.
void check_channel_order(const Dataset& dataset, const RecordSchema& schema, const std::string& first_path) {
  constexpr std::size_t max_sample_count = 256;
  if (schema.channel_count == 1) return;
  ChannelOrder order(schema.image_bytes, schema.channel_count);
  const std::size_t sample_count = std::min(dataset.size(), max_sample_count);
  std::vector<std::uint8_t> image(schema.image_bytes);
  for (std::size_t i = 0; i < sample_count; ++i) {
    dataset.read(i * dataset.size() / sample_count, image);
    order.add(image);
  }
  if (order.seems_interleaved())
    fail(
        ExitCode::data,
        "{}: the images in feature '{}' look interleaved (HWC: red, green, blue of each pixel), not like planes (CHW): "
        "write all red values first, then green, then blue",
        first_path, schema.image_key);
}

}  // namespace

Dataset Dataset::open(std::span<const std::string> patterns, const RecordSchema& schema, CacheMode cache,
                      int local_rank_count) {
  check(schema.image_bytes > 0 && schema.class_count > 0 && local_rank_count > 0, "a dataset of nothing");
  const std::vector<std::string> paths = expand_file_patterns(patterns);
  auto storage = std::make_unique<Storage>();
  storage->schema = schema;
  const std::uint64_t limit_bytes =
      cache == CacheMode::automatic ? available_memory_bytes() / 2 / static_cast<unsigned>(local_rank_count) : no_limit;
  if (cache == CacheMode::none || (cache == CacheMode::automatic && !seems_to_fit(paths, schema, limit_bytes)))
    storage->index(paths);
  else
    storage->load(paths, cache == CacheMode::automatic ? limit_bytes : no_limit);
  if (storage->size == 0)
    fail(ExitCode::data, "{}: no records in {}", paths.front(),
         paths.size() == 1 ? "this file" : fmt::format("this file and the {} others", paths.size() - 1));
  Dataset dataset(std::move(storage));
  check_channel_order(dataset, schema, paths.front());
  return dataset;
}

Dataset::Dataset(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;
Dataset::~Dataset() = default;

std::size_t Dataset::size() const { return storage_->size; }
std::size_t Dataset::image_bytes() const { return storage_->schema.image_bytes; }
bool Dataset::in_memory() const { return storage_->in_memory; }
std::uint32_t Dataset::fingerprint() const { return storage_->fingerprint; }

const std::uint8_t* Dataset::image(std::size_t i) const { return storage_->images.data() + i * image_bytes(); }
std::int32_t Dataset::label(std::size_t i) const { return storage_->labels[i]; }

std::int32_t Dataset::read(std::size_t i, std::span<std::uint8_t> image) const {
  if (in_memory()) {
    std::copy_n(this->image(i), image_bytes(), image.begin());
    return label(i);
  }
  const auto [file, record] = storage_->indexed_record(i);
  check_record_data(file->reader.path(), record);
  return decode(file->reader.path(), record, storage_->schema, image);
}

}  // namespace carillon
