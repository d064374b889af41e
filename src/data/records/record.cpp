#include "carillon/data/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "carillon/core/error.h"
#include "src/core/crc32c.h"
#include "src/data/records/byte_source.h"
#include "src/data/records/mapped_file.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord integers are copied without byte swap");

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

[[noreturn]] void fail_at(const std::string& path, const Record& record, const std::string& cause) {
  throw Error(ExitCode::data, describe_record(path, record) + ": " + cause);
}

/// Sets data and stored_crc of `record` from `whole`, which holds the bytes of the record including header and footer.
void set_data(Record& record, std::span<const std::byte> whole) {
  const std::size_t length = whole.size() - record_header_bytes - record_footer_bytes;
  record.data = {reinterpret_cast<const std::uint8_t*>(whole.data()) + record_header_bytes, length};
  record.stored_crc = load<std::uint32_t>(whole.data() + record_header_bytes + length);
}

}  // namespace

std::uint32_t masked_crc32c(std::span<const std::byte> data) { return std::rotr(crc32c(data), 15) + 0xA282EAD8u; }

void append_record(std::string& out, std::span<const std::byte> data) {
  const std::uint64_t length = data.size();
  append_value(out, length);
  append_value(out, masked_crc32c(std::as_bytes(std::span(&length, 1))));
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  append_value(out, masked_crc32c(data));
}

void append_record(std::string& out, std::string_view data) { append_record(out, std::as_bytes(std::span(data))); }

std::string describe_record(const std::string& path, const Record& record) {
  return fmt::format("{}: record {} at byte {}", path, record.number, record.offset);
}

void check_record_data(const std::string& path, const Record& record) {
  const std::uint32_t computed = masked_crc32c(std::as_bytes(record.data));
  if (computed != record.stored_crc)
    fail_at(path, record,
            fmt::format("the data's checksum is wrong (stored {:08x}, computed {:08x}): the file is damaged",
                        record.stored_crc, computed));
}

struct RecordReader::State {
  std::string path;
  RecordCheck check;
  std::unique_ptr<RecordSource> source;
  std::uint64_t next_number = 0;
  std::uint64_t next_offset = 0;

  bool next(Record& record);
  bool next_place(RecordPlace& place);
  std::optional<std::uint64_t> next_length(Record& record, std::size_t piece_bytes);
  void step_over(const Record& record, std::uint64_t data_bytes);
  std::span<const std::byte> peek(const Record& record, std::size_t bytes, std::size_t piece_bytes);
  std::uint64_t read_length(const Record& record, std::span<const std::byte> header) const;
  std::string cut(std::string_view part, std::uint64_t found, std::uint64_t wanted) const;
};

RecordReader::RecordReader(const std::string& path, RecordCheck check) {
  MappedFile file(path);
  if (check == RecordCheck::data) file.expect_reading_through();
  state_ = std::make_unique<State>(State{.path = path, .check = check, .source = nullptr});
  try {
    state_->source = RecordSource::open(std::move(file));
  } catch (const Error& error) {
    fail_at(path, {}, error.what());
  }
}

RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

const std::string& RecordReader::path() const { return state_->path; }
bool RecordReader::gzip() const { return state_->source->is_gzip(); }
std::uint64_t RecordReader::file_bytes() const { return state_->source->file().bytes().size(); }

std::int64_t RecordReader::changed_nanoseconds() const { return state_->source->file().changed_nanoseconds(); }

void RecordReader::fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const {
  state_->source->file().fetch(begin, end, stop);
}

void RecordReader::expect_reading_in_places() const { state_->source->file().expect_reading_in_places(); }

void RecordReader::announce(const RecordPlace& place) const {
  state_->source->file().announce(place.offset, place.offset + whole_bytes(place));
}

void RecordReader::check_unchanged() const { state_->source->file().check_unchanged(); }

bool RecordReader::next(Record& record) { return state_->next(record); }
bool RecordReader::next_place(RecordPlace& place) { return state_->next_place(place); }

namespace {

bool looks_like_text(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes.first(std::min<std::size_t>(bytes.size(), 64)), [](std::byte byte) {
    const auto code = std::to_integer<int>(byte);
    return (code >= 0x20 && code != 0x7F) || (code >= '\t' && code <= '\r');
  });
}

constexpr std::string_view text_hint = "; it looks like text";

}  // namespace

std::string RecordReader::State::cut(std::string_view part, std::uint64_t found, std::uint64_t wanted) const {
  return fmt::format("{}: only {} of {} bytes: the file is truncated, or has trailing bytes", part, found, wanted);
}

/// Checks the checksum and the limit of the length in `header`, and returns the length.
std::uint64_t RecordReader::State::read_length(const Record& record, std::span<const std::byte> header) const {
  const bool is_text = record.offset == 0 && looks_like_text(header);
  if (header.size() < record_header_bytes)
    fail_at(path, record,
            cut("the header ends early", header.size(), record_header_bytes) + std::string(is_text ? text_hint : ""));
  const auto length = load<std::uint64_t>(header.data());
  if (masked_crc32c(header.first(8)) != load<std::uint32_t>(header.data() + 8))
    fail_at(path, record,
            fmt::format("the length's checksum is wrong (length {}): the file is damaged or not a TFRecord file{}",
                        length, is_text ? text_hint : ""));
  const std::uint64_t max_bytes = source->is_gzip() ? max_gzip_record_bytes : max_plain_record_bytes;
  if (length > max_bytes)
    fail_at(path, record,
            fmt::format("the length {} exceeds the limit of {} bytes: the file may be damaged", length, max_bytes));
  return length;
}

/// Returns the next bytes of the source. The source does not know the names of file and record, so this function adds
/// them to decompression errors.
std::span<const std::byte> RecordReader::State::peek(const Record& record, std::size_t bytes, std::size_t piece_bytes) {
  try {
    return source->peek(bytes, piece_bytes);
  } catch (const Error& error) {
    fail_at(path, record, error.what());
  }
}

/// Sets number and offset of the next record, checks that all its bytes exist, and returns the length of its data.
/// Returns nullopt after the last record.
std::optional<std::uint64_t> RecordReader::State::next_length(Record& record, std::size_t piece_bytes) {
  constexpr std::size_t max_hint_bytes = 64;  // enough bytes to recognise a text file
  record = {.number = next_number, .offset = next_offset};
  const auto header = peek(record, max_hint_bytes, piece_bytes);
  if (header.empty()) {
    source->close();
    return std::nullopt;
  }
  const std::uint64_t length = read_length(record, header);
  const std::uint64_t whole_bytes = record_header_bytes + length + record_footer_bytes;
  std::uint64_t found;
  try {
    found = source->count_up_to(whole_bytes);
  } catch (const Error& error) {
    fail_at(path, record, error.what());
  }
  if (found < whole_bytes)
    fail_at(path, record, cut("the data ends early", found - record_header_bytes, length + record_footer_bytes));
  return length;
}

void RecordReader::State::step_over(const Record& record, std::uint64_t data_bytes) {
  next_number = record.number + 1;
  next_offset = record.offset + record_header_bytes + data_bytes + record_footer_bytes;
}

bool RecordReader::State::next(Record& record) {
  const auto length = next_length(record, RecordSource::large_piece);
  if (!length) return false;
  const std::uint64_t whole_bytes = record_header_bytes + *length + record_footer_bytes;
  set_data(record, peek(record, whole_bytes, RecordSource::large_piece).first(whole_bytes));
  if (check == RecordCheck::data) check_record_data(path, record);
  source->skip(whole_bytes);
  step_over(record, *length);
  return true;
}

bool RecordReader::State::next_place(RecordPlace& place) {
  Record record;
  const auto length = next_length(record, RecordSource::small_piece);
  if (!length) return false;
  source->skip(record_header_bytes + *length);
  const auto footer = peek(record, record_footer_bytes, RecordSource::small_piece);
  place = {record.number, record.offset, *length, load<std::uint32_t>(footer.data())};
  source->skip(record_footer_bytes);
  step_over(record, *length);
  return true;
}

Record RecordReader::read_again(const RecordPlace& place, std::vector<std::uint8_t>& buffer) const {
  Record record{.number = place.number, .offset = place.offset};
  buffer.resize(whole_bytes(place));
  const auto whole = std::as_writable_bytes(std::span(buffer));
  try {
    copy_mapped(state_->source->file().bytes().subspan(place.offset, whole.size()), whole.data());
    set_data(record, whole);
    if (load<std::uint64_t>(whole.data()) != place.data_bytes) throw Error(ExitCode::data, "its length has changed");
    if (masked_crc32c(std::as_bytes(record.data)) == place.stored_crc) return record;
    if (record.stored_crc != place.stored_crc) throw Error(ExitCode::data, "its checksum has changed");
  } catch (const Error& error) {
    check_unchanged();
    fail_at(state_->path, record, error.what());
  }
  check_unchanged();
  check_record_data(state_->path, record);
  return record;
}

}  // namespace carillon
