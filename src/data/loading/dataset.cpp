#include "carillon/data/dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"
#include "carillon/data/decoder.h"
#include "carillon/data/record.h"
#include "src/core/crc32c.h"
#include "src/core/file_tools.h"
#include "src/core/resources.h"
#include "src/data/records/mapped_file.h"
#include "src/data/records/record_index.h"

namespace carillon {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

struct Dataset::Storage {
  explicit Storage(std::shared_ptr<const RecordDecoder> its_decoder)
      : decoder(std::move(its_decoder)),
        image_bytes(decoder->image_shape().bytes()),
        target_bytes(decoder->target_spec().bytes()) {}

  std::shared_ptr<const RecordDecoder> decoder;
  std::size_t image_bytes, target_bytes;
  struct File {
    std::string path;
    std::size_t first;  ///< number of the file's first record
  };
  std::vector<File> files;
  std::size_t size = 0;
  std::uint32_t fingerprint = 0;
  bool in_memory = false;

  // Only if the dataset is in memory: all images, one after the other, and their targets.
  PageArray images;
  std::vector<std::byte> targets;
  std::vector<std::uint32_t> checksums;  // for each record, the result of checksum_of directly after decoding

  std::optional<RecordIndex> index;              // exists only if the records are not in memory
  std::function<void(const std::string&)> warn;  // receives the errors of skipped records; null: no record is skipped
  mutable std::mutex skipping;                   // guards `skipped`
  mutable std::set<std::size_t> skipped;

  bool load(std::span<const std::string> paths, std::uint64_t limit_bytes);
  void make_index(const std::vector<std::string>& paths, FileIndex known);
  /// The memory to which a record is decoded.
  struct Sample {
    std::span<std::uint8_t> image;
    std::span<std::byte> target;
  };
  /// Appends the memory for one record. The result is valid until the next call.
  Sample append() {
    targets.resize(targets.size() + target_bytes);
    return {{images.append(image_bytes), image_bytes}, std::span(targets).last(target_bytes)};
  }
  /// Returns the CRC32C of the image of record i and then the target of record i. Both must be in memory.
  std::uint32_t checksum_of(std::size_t i) const {
    const std::span image(images.data() + i * image_bytes, image_bytes);
    return crc32c(std::span(targets).subspan(i * target_bytes, target_bytes), crc32c(std::as_bytes(image)));
  }
  /// Stores the checksum of the last record. Call it directly after this record has been appended and decoded, while
  /// the record is still in the processor's cache.
  void seal_last() { checksums.push_back(checksum_of(checksums.size())); }
  void read(std::size_t i, std::uint64_t position, const Sample& sample) const;
  void read_target(std::size_t i, std::span<std::byte> target) const;
  void pass_over(std::size_t i, const std::string& what) const;
  void count(std::uint64_t data_bytes, std::uint32_t stored_crc);
  void decode(const std::string& path, const Record& record, std::uint64_t position, const Sample& sample) const;
};

namespace {

/// Calls `decode`. If it throws, adds the file and the position of the record to the error.
template <typename Decode>
void name_record_in_errors(const std::string& path, const Record& record, const Decode& decode) {
  try {
    decode();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", describe_record(path, record), error.what());
  }
}

thread_local std::vector<std::uint8_t> record_buffer;  // one buffer per reading thread

}  // namespace

void Dataset::Storage::decode(const std::string& path, const Record& record, std::uint64_t position,
                              const Sample& sample) const {
  name_record_in_errors(path, record, [&] { decoder->decode(record.data, position, sample.image, sample.target); });
}

void Dataset::Storage::read(std::size_t i, std::uint64_t position, const Sample& sample) const {
  const auto [path, record] = index->read(i, record_buffer);
  decode(path, record, position, sample);
}

void Dataset::Storage::read_target(std::size_t i, std::span<std::byte> target) const {
  const auto [path, record] = index->read(i, record_buffer);
  name_record_in_errors(path, record, [&, &record = record] { decoder->decode_target(record.data, target); });
}

void Dataset::Storage::pass_over(std::size_t i, const std::string& what) const {
  const std::lock_guard lock(skipping);
  if (skipped.insert(i).second) warn(what);
}

void Dataset::Storage::count(std::uint64_t data_bytes, std::uint32_t stored_crc) {
  std::array<std::byte, sizeof data_bytes + sizeof stored_crc> identity;
  std::memcpy(identity.data(), &data_bytes, sizeof data_bytes);
  std::memcpy(identity.data() + sizeof data_bytes, &stored_crc, sizeof stored_crc);
  fingerprint = crc32c(identity, fingerprint);
  ++size;
}

/// Decodes all records. A file stays mapped until its last record is decoded. Returns false if the decoded plain files
/// exceed `limit_bytes`.
bool Dataset::Storage::load(std::span<const std::string> paths, std::uint64_t limit_bytes) {
  in_memory = true;
  for (const std::string& path : paths) {
    files.push_back({path, size});
    RecordReader reader(path);
    for (Record record; reader.next(record);) {
      decode(path, record, size, append());
      seal_last();
      count(record.data.size(), record.stored_crc);
      if (images.size() <= limit_bytes) continue;
      if (!reader.gzip()) return false;
      fail(ExitCode::usage,
           "{}: the decoded dataset takes more than {} MiB, half of the available memory divided by the ranks of this "
           "host, and GZIP files require the cache; decompress the files, or use --cache memory",
           path, limit_bytes >> 20);
    }
  }
  return true;
}

void Dataset::Storage::make_index(const std::vector<std::string>& paths, FileIndex known) {
  index.emplace(known.empty() ? known_files(paths) : std::move(known));
  for (const std::string& path : paths) {
    files.push_back({path, size});
    index->add(path, [this](const RecordPlace& place) { count(place.data_bytes, place.stored_crc); });
  }
}

namespace {

/// Estimates from the mean length of the first records whether the decoded dataset needs at most `limit_bytes`.
bool seems_to_fit(std::span<const std::string> paths, std::size_t decoded_bytes, std::uint64_t limit_bytes) {
  constexpr std::uint64_t max_sample_count = 64;
  std::uint64_t file_bytes = 0, sample_count = 0, sample_bytes = 0;
  for (const std::string& path : paths) {
    RecordReader reader(path, RecordCheck::framing);
    if (reader.gzip()) return true;  // GZIP requires the cache; load() enforces the limit
    file_bytes += reader.file_bytes();
    for (RecordPlace place; sample_count < max_sample_count && reader.next_place(place); ++sample_count) {
      sample_bytes += record_header_bytes + place.data_bytes + record_footer_bytes;
    }
  }
  if (sample_count == 0) return true;
  return file_bytes / (sample_bytes / sample_count) <= limit_bytes / decoded_bytes;
}

/// True if the error means that a record is damaged, so that the record may be skipped.
bool is_damage(const Error& error) {
  return error.code() == ExitCode::data && dynamic_cast<const FileChangedError*>(&error) == nullptr;
}

/// Returns the maximum size of the decoded dataset in this process, in bytes.
std::uint64_t cache_limit(CacheMode cache, int local_rank_count) {
  if (cache != CacheMode::automatic) return no_limit;
  return available_memory_bytes() / 2 / static_cast<unsigned>(local_rank_count);
}

/// True if Dataset::open must decode the whole dataset.
bool wants_cache(std::span<const std::string> paths, const RecordDecoder& decoder, CacheMode cache,
                 std::uint64_t limit_bytes) {
  if (decoder.draws() && cache == CacheMode::memory) {
    fail(ExitCode::usage,
         "--cache memory: each read of {} makes a new image (pictures: unless --distort=false), so images cannot be "
         "kept in memory",
         paths.front());
  }
  if (decoder.draws() || cache == CacheMode::none) return false;
  if (cache == CacheMode::memory) return true;
  const std::size_t decoded_bytes = decoder.image_shape().bytes() + decoder.target_spec().bytes();
  return !decoder.is_slow() && seems_to_fit(paths, decoded_bytes, limit_bytes);
}

}  // namespace

bool Dataset::would_cache(const std::vector<std::string>& paths, const RecordDecoder& decoder, CacheMode cache,
                          int local_rank_count) {
  return wants_cache(paths, decoder, cache, cache_limit(cache, local_rank_count));
}

Dataset Dataset::open(std::span<const std::string> patterns, std::shared_ptr<const RecordDecoder> decoder,
                      CacheMode cache, int local_rank_count, FileIndex known, DamagedSamples damaged) {
  check(decoder != nullptr && local_rank_count > 0, "a dataset requires a decoder and at least one process");
  const std::vector<std::string> paths = expand_file_patterns(patterns);
  const std::uint64_t limit_bytes = cache_limit(cache, local_rank_count);
  auto storage = std::make_unique<Storage>(decoder);
  if (!wants_cache(paths, *decoder, cache, limit_bytes)) {
    storage->make_index(paths, std::move(known));
  } else if (!storage->load(paths, limit_bytes)) {
    storage = std::make_unique<Storage>(decoder);
    storage->make_index(paths, std::move(known));
  }
  if (storage->size == 0) {
    fail(ExitCode::data, "{}: no records in {}", paths.front(),
         paths.size() == 1 ? "this file" : fmt::format("this file and {} more", paths.size() - 1));
  }
  Dataset opened(std::move(storage));
  std::vector<std::byte> target(opened.target_bytes());
  const auto read = [&](std::size_t i, std::span<std::uint8_t> image) {
    try {
      opened.read(i, i, image, target);
    } catch (const Error& error) {
      if (damaged == DamagedSamples::refuse || !is_damage(error)) throw;
      std::ranges::fill(image, std::uint8_t{0});
    }
  };
  const std::string fault = decoder->find_fault(opened.size(), read);
  if (!fault.empty()) fail(ExitCode::data, "{}: {}", paths.front(), fault);
  return opened;
}

Dataset Dataset::synthetic(std::shared_ptr<const RecordDecoder> decoder) {
  constexpr std::size_t most_bytes = std::size_t{128} << 20, least_count = 64, most_count = 10000;
  auto storage = std::make_unique<Storage>(std::move(decoder));
  storage->in_memory = true;
  storage->files.push_back({"synthetic data", 0});
  const std::size_t count = std::clamp(most_bytes / storage->image_bytes, least_count, most_count);
  // Draws the images plane by plane. This order must stay the same, because networks, recipes and stored results were
  // measured on these images.
  std::vector<std::uint8_t> planes(storage->image_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    PhiloxDraws draws(0, RandomPurpose::synthetic, i);
    const auto [pixels, target] = storage->append();
    for (std::size_t at = 0; at < planes.size(); at += sizeof(std::uint32_t)) {
      const std::uint32_t word = draws.word();
      std::memcpy(planes.data() + at, &word, std::min(sizeof word, planes.size() - at));
    }
    planes_to_pixels(storage->decoder->image_shape(), planes, pixels);
    storage->decoder->write_synthetic_target(i, target);
    storage->seal_last();
    storage->count(storage->image_bytes, draws.word());
  }
  return Dataset(std::move(storage));
}

Dataset::Dataset(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;
Dataset::~Dataset() = default;

std::size_t Dataset::size() const { return storage_->size; }
const ImageShape& Dataset::image_shape() const { return storage_->decoder->image_shape(); }
const TargetSpec& Dataset::target_spec() const { return storage_->decoder->target_spec(); }
std::size_t Dataset::image_bytes() const { return storage_->image_bytes; }
std::size_t Dataset::target_bytes() const { return storage_->target_bytes; }
bool Dataset::in_memory() const { return storage_->in_memory; }
std::uint32_t Dataset::fingerprint() const { return storage_->fingerprint; }

float Dataset::density() const {
  constexpr std::size_t max_records = 256, max_bytes = std::size_t{1} << 20;  // needs less than a millisecond
  const std::size_t record_count = std::min(size(), std::clamp<std::size_t>(max_bytes / image_bytes(), 1, max_records));
  std::vector<std::uint8_t> image(image_bytes());
  std::vector<std::byte> target(target_bytes());
  std::ptrdiff_t zeros = 0;
  for (std::size_t i = 0; i < record_count; ++i) {
    const std::size_t record = i * size() / record_count;
    read(record, record, image, target);
    zeros += std::ranges::count(image, std::uint8_t{0});
  }
  return static_cast<float>(1.0 - static_cast<double>(zeros) / static_cast<double>(record_count * image_bytes()));
}

std::vector<std::uint64_t> Dataset::shares_of_files(int tower_count) const {
  const auto& files = storage_->files;
  if (files.size() < static_cast<std::size_t>(tower_count)) {
    fail(ExitCode::usage, "--sharding file: {} files are not enough for {} ranks; each rank requires a file",
         files.size(), tower_count);
  }
  std::vector<std::uint64_t> shares;
  for (int tower = 0; tower < tower_count; ++tower) {
    const auto [begin, end] = file_share(files.size(), tower, tower_count);
    shares.push_back(files[begin].first);
    if (files[begin].first == (end < files.size() ? files[end].first : size())) {
      fail(ExitCode::usage, "--sharding file: {} and the other files of rank {} have no records", files[begin].path,
           tower);
    }
  }
  return shares;
}

Dataset::Place Dataset::place_of(std::size_t i) const {
  const auto& files = storage_->files;
  const auto file = std::prev(std::ranges::upper_bound(files, i, {}, &Storage::File::first));
  return {file->path, i - file->first};
}

std::string Dataset::name_of(std::size_t i) const {
  const Place place = place_of(i);
  return fmt::format("{}: record {}", place.path, place.number);
}

const std::uint8_t* Dataset::image(std::size_t i) const { return storage_->images.data() + i * image_bytes(); }
std::span<const std::byte> Dataset::targets() const { return storage_->targets; }

void Dataset::check_unchanged(std::size_t i) const {
  if (storage_->checksum_of(i) == storage_->checksums[i]) return;
  throw ChangedInMemory(
      ExitCode::failed,
      fmt::format("{}: the image or target changed in memory since it was read; check this host's memory", name_of(i)));
}

void Dataset::read(std::size_t i, std::uint64_t position, std::span<std::uint8_t> image,
                   std::span<std::byte> target) const {
  if (in_memory()) {
    check_unchanged(i);
    std::copy_n(this->image(i), image_bytes(), image.begin());
    std::ranges::copy(this->target(i), target.begin());
    return;
  }
  for (std::size_t tried = 1;; ++tried) {
    try {
      return storage_->read(i, position, {image, target});
    } catch (const Error& error) {
      if (!storage_->warn || !is_damage(error) || tried == size()) throw;
      storage_->pass_over(i, error.what());
    }
    i = (i + 1) % size();
  }
}

bool Dataset::read_target(std::size_t i, std::span<std::byte> target) const {
  if (in_memory()) {
    check_unchanged(i);
    std::ranges::copy(this->target(i), target.begin());
    return true;
  }
  try {
    storage_->read_target(i, target);
    return true;
  } catch (const Error& error) {
    if (!storage_->warn || !is_damage(error)) throw;
    storage_->pass_over(i, error.what());
    return false;
  }
}

void Dataset::expect_random_order() const {
  check(!in_memory(), "not allowed for a dataset in memory");
  storage_->index->expect_random_order();
}

void Dataset::fetch(std::span<const std::uint32_t> records, const std::stop_token& stop) const {
  check(!in_memory(), "not allowed for a dataset in memory");
  while (!records.empty() && !stop.stop_requested()) {
    std::size_t count = 1;
    while (count < records.size() && records[count] == records[count - 1] + 1) ++count;
    storage_->index->fetch(records.front(), count, stop);
    records = records.subspan(count);
  }
}

void Dataset::skip_damaged(std::function<void(const std::string&)> warn) {
  check(!in_memory(), "not allowed for a dataset in memory");
  storage_->warn = std::move(warn);
}

std::size_t Dataset::skipped_count() const {
  const std::lock_guard lock(storage_->skipping);
  return storage_->skipped.size();
}

}  // namespace carillon
