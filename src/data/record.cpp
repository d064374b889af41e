#include "carillon/data/record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "carillon/core/crc32c.h"
#include "carillon/core/error.h"
#include "src/data/gzip_stream.h"
#include "src/data/mapped_file.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord integers are copied as they are");

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

/// Where a reader's bytes come from.
class RecordReader::Source {
 public:
  explicit Source(MappedFile file) : file_(std::move(file)) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// The next bytes without consuming them: at least `bytes` of them, fewer only where the stream ends.
  virtual std::span<const std::byte> peek(std::size_t bytes) = 0;
  /// Consumes `bytes` that `peek` has shown; what it showed stays valid until the next `peek`.
  virtual void skip(std::size_t bytes) = 0;
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
};

class RecordReader::PlainSource final : public Source {
 public:
  explicit PlainSource(MappedFile file) : Source(std::move(file)), rest_(this->file().bytes()) {}
  std::span<const std::byte> peek(std::size_t) override { return rest_; }
  void skip(std::size_t bytes) override {
    rest_ = rest_.subspan(bytes);
    if (rest_.data() >= window_end_) next_window();
  }

 private:
  /// Gives up the pages passed, so that a large file does not count as this process's memory. (They come back when
  /// touched.)
  void next_window() {
    constexpr std::size_t window_bytes = std::size_t{8} << 20;
    const auto bytes = file().bytes();
    const std::size_t begin = static_cast<std::size_t>(rest_.data() - bytes.data()) / window_bytes * window_bytes;
    file().give_up(begin);
    window_end_ = bytes.data() + std::min(bytes.size(), begin + window_bytes);
  }

  std::span<const std::byte> rest_;
  const std::byte* window_end_ = nullptr;
};

class RecordReader::GzipSource final : public Source {
 public:
  explicit GzipSource(MappedFile file) : Source(std::move(file)), stream_(this->file().bytes()) {}

  std::span<const std::byte> peek(std::size_t bytes) override {
    while (end_ - begin_ < bytes) {
      make_room();
      const std::size_t arrived = stream_.read(std::span(buffer_).subspan(end_));
      if (arrived == 0) break;
      end_ += arrived;
    }
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void skip(std::size_t bytes) override { begin_ += bytes; }

 private:
  /// Moves the unread bytes to the front; the buffer grows only once it is full of them, so it never holds much more
  /// than what really arrived, whatever length a damaged header asks for.
  void make_room() {
    constexpr std::size_t first_bytes = 256 << 10;  // stays in the second-level cache
    std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
    end_ -= std::exchange(begin_, 0);
    if (end_ == buffer_.size()) buffer_.resize(std::max(first_bytes, 2 * buffer_.size()));
  }

  GzipStream stream_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of the unread bytes in buffer_
};

struct RecordReader::State {
  std::string path;
  RecordCheck check;
  bool gzip;
  std::unique_ptr<Source> source;
  std::uint64_t next_number = 0;
  std::uint64_t next_offset = 0;

  bool next(Record& record);
  std::span<const std::byte> peek(const Record& record, std::size_t bytes);
  std::uint64_t read_length(const Record& record, std::span<const std::byte> header) const;
  std::string cut(std::string_view part, std::uint64_t found, std::uint64_t wanted) const;
};

RecordReader::RecordReader(const std::string& path, RecordCheck check) {
  MappedFile file(path);
  const bool gzip = is_gzip(file.bytes());
  if (check == RecordCheck::data) file.expect_reading_through();
  std::unique_ptr<Source> source;
  if (gzip)
    source = std::make_unique<GzipSource>(std::move(file));
  else
    source = std::make_unique<PlainSource>(std::move(file));
  state_ = std::make_unique<State>(State{.path = path, .check = check, .gzip = gzip, .source = std::move(source)});
}

RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
RecordReader::~RecordReader() = default;

const std::string& RecordReader::path() const { return state_->path; }
bool RecordReader::gzip() const { return state_->gzip; }
std::uint64_t RecordReader::file_bytes() const { return state_->source->file().bytes().size(); }

bool RecordReader::next(Record& record) { return state_->next(record); }

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
  return fmt::format("{}: {} of {} bytes are there: the file is cut, or has trailing bytes", part, found, wanted);
}

/// The length that `header` gives, once it is known to be undamaged and possible.
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
  const std::uint64_t max_bytes = gzip ? max_gzip_record_bytes : max_plain_record_bytes;
  if (length > max_bytes)
    fail_at(path, record, fmt::format("an absurd length: {} bytes, where {} is the limit", length, max_bytes));
  return length;
}

/// The source's bytes; damage to the compression itself is found there, where neither file nor record is known.
std::span<const std::byte> RecordReader::State::peek(const Record& record, std::size_t bytes) {
  try {
    return source->peek(bytes);
  } catch (const Error& error) {
    fail_at(path, record, error.what());
  }
}

bool RecordReader::State::next(Record& record) {
  record = {.number = next_number, .offset = next_offset};
  const auto header = peek(record, record_header_bytes);
  if (header.empty()) return false;
  const std::uint64_t length = read_length(record, header);
  const std::uint64_t whole_bytes = record_header_bytes + length + record_footer_bytes;
  const auto whole = peek(record, whole_bytes);
  if (whole.size() < whole_bytes)
    fail_at(path, record, cut("the data ends early", whole.size() - record_header_bytes, length + record_footer_bytes));
  record.data = {reinterpret_cast<const std::uint8_t*>(whole.data()) + record_header_bytes, length};
  record.stored_crc = load<std::uint32_t>(whole.data() + record_header_bytes + length);
  if (check == RecordCheck::data) check_record_data(path, record);
  source->skip(whole_bytes);
  next_number = record.number + 1;
  next_offset = record.offset + whole_bytes;
  return true;
}

}  // namespace carillon
