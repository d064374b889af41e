#include "src/data/records/record_index.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/record.h"
#include "src/core/crc32c.h"
#include "src/core/resources.h"
#include "src/data/records/record_files.h"

namespace carillon {
namespace {

constexpr std::string_view magic = "CARIDX01";
constexpr std::size_t max_index_bytes = std::size_t{16} << 30;

/// Appends the bytes of a value in little endian, the byte order of all supported hosts.
template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void append_all(std::string& out, const std::vector<T>& values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// Reads values that `append` wrote. Throws std::out_of_range if the bytes end too early.
class Taker {
 public:
  explicit Taker(std::string_view text) : left_(text) {}

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }

  template <typename T>
  std::vector<T> take_all(std::uint64_t count) {
    if (count > left_.size() / sizeof(T)) throw std::out_of_range("values");
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes(count * sizeof(T)).data(), count * sizeof(T));
    return values;
  }

  std::string_view bytes(std::uint64_t count) {
    if (count > left_.size()) throw std::out_of_range("bytes");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

/// True if every record has room for a header and a footer within the file.
bool is_possible(const IndexedFile& file) {
  constexpr std::uint64_t least = record_header_bytes + record_footer_bytes;
  if (file.offsets.empty()) return file.bytes == 0;
  if (file.offsets.front() != 0 || file.bytes < least || file.offsets.back() > file.bytes - least) return false;
  for (std::size_t i = 1; i < file.offsets.size(); ++i) {
    if (file.offsets[i] < file.offsets[i - 1] + least) return false;
  }
  return true;
}

IndexedFile index_of(const std::string& path) {
  RecordReader reader(path, RecordCheck::framing);
  if (reader.gzip()) {
    fail(ExitCode::usage, "{}: a GZIP file has no random access and cannot be indexed; decompress it: {}", path,
         decompressing(path));
  }
  IndexedFile file{.bytes = reader.file_bytes(), .changed_nanoseconds = reader.changed_nanoseconds()};
  for (RecordPlace place; reader.next_place(place);) {
    file.offsets.push_back(place.offset);
    file.checksums.push_back(place.stored_crc);
  }
  reader.check_unchanged();
  return file;
}

}  // namespace

FileIndex parse_index(std::string_view text) {
  Taker taker(text);
  if (taker.bytes(magic.size()) != magic) throw std::runtime_error("not an index file, or another version");
  const auto checksum = taker.take<std::uint32_t>();
  const std::string_view rest = text.substr(magic.size() + sizeof checksum);
  if (crc32c(std::as_bytes(std::span(rest))) != checksum) throw std::runtime_error("wrong checksum");
  FileIndex index;
  for (auto count = taker.take<std::uint64_t>(); count > 0; --count) {
    const std::string name(taker.bytes(taker.take<std::uint64_t>()));
    IndexedFile file{.bytes = taker.take<std::uint64_t>(), .changed_nanoseconds = taker.take<std::int64_t>()};
    const auto records = taker.take<std::uint64_t>();
    file.offsets = taker.take_all<std::uint64_t>(records);
    file.checksums = taker.take_all<std::uint32_t>(records);
    if (!is_possible(file)) throw std::runtime_error("impossible record offsets");
    index.emplace(name, std::move(file));
  }
  if (!taker.empty()) throw std::runtime_error("trailing bytes");
  return index;
}

FileIndex read_index_file(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / index_file_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const std::string text = read_plain_file(path, path.string(), max_index_bytes);
  try {
    return parse_index(text);
  } catch (const std::exception& cause) {
    fail(ExitCode::data, "{}: is damaged ({}); remove it, or rebuild it with tfrecord_inspect --index", path.string(),
         cause.what());
  }
}

FileIndex known_files(const std::vector<std::string>& paths) {
  std::map<std::filesystem::path, FileIndex> of_directories;
  FileIndex known;
  for (const std::string& path : paths) {
    const std::filesystem::path file(path), directory = file.parent_path();
    auto index = of_directories.find(directory);
    if (index == of_directories.end()) index = of_directories.emplace(directory, read_index_file(directory)).first;
    auto said = index->second.extract(file.filename().string());
    if (said.empty()) continue;
    const FileStamp stamp{said.mapped().bytes, said.mapped().changed_nanoseconds};
    if (stamp_of(file) != stamp) continue;
    known.emplace(path, std::move(said.mapped()));
  }
  return known;
}

std::string index_bytes(const FileIndex& index) {
  std::string rest;
  append(rest, std::uint64_t{index.size()});
  for (const auto& [name, file] : index) {
    append(rest, std::uint64_t{name.size()});
    rest += name;
    append(rest, file.bytes);
    append(rest, file.changed_nanoseconds);
    append(rest, std::uint64_t{file.offsets.size()});
    append_all(rest, file.offsets);
    append_all(rest, file.checksums);
  }
  std::string text(magic);
  append(text, crc32c(std::as_bytes(std::span(rest))));
  return text += rest;
}

void write_index_file(const std::filesystem::path& directory, const FileIndex& index) {
  const std::string bytes = index_bytes(index);
  write_file_atomically(directory / index_file_name, std::as_bytes(std::span(bytes)), max_index_bytes);
}

std::vector<IndexedFile> index_files(const std::vector<std::string>& paths,
                                     const std::function<void(std::size_t)>& done) {
  std::vector<IndexedFile> files(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < paths.size(); ++i) {
    try {
      files[i] = index_of(paths[i]);
      done(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return files;
}

struct RecordIndex::File {
  RecordReader reader;  // this object keeps the file mapped
  std::size_t first_record, end_record;
};

RecordIndex::RecordIndex(FileIndex known) : known_(std::move(known)) {}
RecordIndex::~RecordIndex() = default;

void RecordIndex::add(const std::string& path, const std::function<void(const RecordPlace&)>& visit) {
  RecordReader reader(path, RecordCheck::framing);
  if (reader.gzip()) {
    fail(ExitCode::usage, "{}: a GZIP file has no random access and cannot be read record by record; decompress it: {}",
         path, decompressing(path));
  }
  const std::size_t first_record = offsets_.size();
  if (const std::optional<IndexedFile> indexed = take_known(reader)) {
    offsets_.insert(offsets_.end(), indexed->offsets.begin(), indexed->offsets.end());
    checksums_.insert(checksums_.end(), indexed->checksums.begin(), indexed->checksums.end());
    files_.push_back({std::move(reader), first_record, offsets_.size()});
    for (std::size_t i = first_record; i < offsets_.size(); ++i) visit(place(files_.back(), i));
    if (offsets_.size() == first_record) files_.pop_back();
    return;
  }
  for (RecordPlace place; reader.next_place(place);) {
    offsets_.push_back(place.offset);
    checksums_.push_back(place.stored_crc);
    visit(place);
  }
  if (offsets_.size() > first_record) files_.push_back({std::move(reader), first_record, offsets_.size()});
}

std::optional<IndexedFile> RecordIndex::take_known(const RecordReader& reader) {
  auto said = known_.extract(reader.path());
  if (said.empty()) return std::nullopt;
  IndexedFile& file = said.mapped();
  if (file.bytes != reader.file_bytes() || file.changed_nanoseconds != reader.changed_nanoseconds())
    return std::nullopt;
  return std::move(file);
}

RecordPlace RecordIndex::place(const File& file, std::size_t i) const {
  const std::uint64_t end = i + 1 < file.end_record ? offsets_[i + 1] : file.reader.file_bytes();
  return {.number = i - file.first_record,
          .offset = offsets_[i],
          .data_bytes = end - offsets_[i] - record_header_bytes - record_footer_bytes,
          .stored_crc = checksums_[i]};
}

const RecordIndex::File& RecordIndex::file_of(std::size_t i) const {
  return *std::prev(std::ranges::upper_bound(files_, i, {}, &File::first_record));
}

std::pair<const std::string&, Record> RecordIndex::read(std::size_t i, std::vector<std::uint8_t>& buffer) const {
  const File& file = file_of(i);
  check_now_and_then(file);
  const RecordPlace place = this->place(file, i);
  if (announces_.load(std::memory_order_relaxed)) file.reader.announce(place);
  return {file.reader.path(), file.reader.read_again(place, buffer)};
}

void RecordIndex::expect_random_order() const {
  std::uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.reader.file_bytes();
  if (bytes <= total_memory_bytes() / 2) return;
  for (const File& file : files_) file.reader.expect_reading_in_places();
  announces_.store(true, std::memory_order_relaxed);
}

void RecordIndex::fetch(std::size_t first, std::size_t count, const std::stop_token& stop) const {
  for (const std::size_t end = first + count; first < end;) {
    const File& file = file_of(first);
    const std::size_t last = std::min(end, file.end_record) - 1;
    const RecordPlace place = this->place(file, last);
    file.reader.fetch(offsets_[first], place.offset + whole_bytes(place), stop);
    first = last + 1;
  }
}

/// Checks that the file is unchanged, but at most once per interval, so that a thousand ranks do not overload the file
/// system. If a record changes between two checks, its checksum detects the change.
void RecordIndex::check_now_and_then(const File& file) const {
  constexpr std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t due = next_check_.load(std::memory_order_relaxed);
  if (now < due || !next_check_.compare_exchange_strong(due, now + interval.count())) return;
  file.reader.check_unchanged();
}

}  // namespace carillon
