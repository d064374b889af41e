#include "src/data/records/record_index.h"

#include <algorithm>
#include <chrono>

#include "carillon/core/error.h"
#include "src/data/loading/available_memory.h"

namespace carillon {

struct RecordIndex::File {
  RecordReader reader;  // keeps the file mapped
  std::size_t first_record, end_record;
};

RecordIndex::RecordIndex(FileIndex known) : known_(std::move(known)) {}
RecordIndex::~RecordIndex() = default;

void RecordIndex::add(const std::string& path, const std::function<void(const RecordPlace&)>& visit) {
  RecordReader reader(path, RecordCheck::framing);
  if (reader.gzip()) {
    fail(ExitCode::usage,
         "{}: a GZIP file has no random access and needs the cache; decompress it, or train with --cache memory", path);
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

/// Checks the file that is being read, at most once per interval: a thousand ranks must not overload the file system.
/// The checksum detects a record that changed in between.
void RecordIndex::check_now_and_then(const File& file) const {
  constexpr std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t due = next_check_.load(std::memory_order_relaxed);
  if (now < due || !next_check_.compare_exchange_strong(due, now + interval.count())) return;
  file.reader.check_unchanged();
}

}  // namespace carillon
