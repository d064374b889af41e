#include "src/data/loading/record_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/core/free_memory.h"
#include "src/data/records/gzip_stream.h"
#include "src/data/records/mapped_copy.h"

namespace carillon {
namespace {

class PlainSource final : public RecordSource {
 public:
  explicit PlainSource(MappedFile file) : RecordSource(std::move(file)) {}

  bool is_gzip() const override { return false; }
  std::uint64_t count_up_to(std::uint64_t bytes) override { return std::min<std::uint64_t>(bytes, held() + left()); }

 private:
  std::size_t left() const { return file().bytes().size() - position_; }

  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::min(out.size(), left());
    copy_mapped(file().bytes().subspan(position_, count), out.data());
    pass(count);
    return count;
  }

  /// Releases the pages that were read, so that a large file does not count as memory of this process. The kernel reads
  /// the pages again if they are touched.
  void pass(std::uint64_t bytes) override {
    constexpr std::size_t window_bytes = std::size_t{8} << 20;
    position_ += bytes;
    if (position_ - given_up_ < window_bytes) return;
    given_up_ = position_ / window_bytes * window_bytes;
    file().give_up(given_up_);
  }

  std::size_t position_ = 0, given_up_ = 0;
};

class GzipSource final : public RecordSource {
 public:
  explicit GzipSource(MappedFile file)
      : RecordSource(std::move(file)), stream_([this](std::span<std::byte> out) { return next(out); }) {}

  bool is_gzip() const override { return true; }
  std::uint64_t count_up_to(std::uint64_t bytes) override {
    return std::min<std::uint64_t>(bytes, peek(static_cast<std::size_t>(bytes)).size());
  }

 private:
  std::size_t read(std::span<std::byte> out) override { return stream_.read(out); }
  void pass(std::uint64_t /*bytes*/) override {}  // counted bytes are in the buffer

  /// Next bytes of the file. They are copied, so that zlib never touches pages of a truncated file.
  std::size_t next(std::span<std::byte> out) {
    const auto from = file().bytes().subspan(position_);
    const std::size_t count = std::min(out.size(), from.size());
    copy_mapped(from.first(count), out.data());
    position_ += count;
    return count;
  }

  std::size_t position_ = 0;
  GzipStream stream_;
};

}  // namespace

std::unique_ptr<RecordSource> RecordSource::open(MappedFile file) {
  std::array<std::byte, 2> magic{};
  const auto first = file.bytes().first(std::min(file.bytes().size(), magic.size()));
  copy_mapped(first, magic.data());
  if (carillon::is_gzip(std::span(magic).first(first.size()))) return std::make_unique<GzipSource>(std::move(file));
  return std::make_unique<PlainSource>(std::move(file));
}

std::span<const std::byte> RecordSource::peek(std::size_t bytes, std::size_t piece_bytes) {
  while (held() < bytes) {
    make_room(piece_bytes);
    const std::size_t arrived = read(std::span(buffer_).subspan(end_));
    if (arrived == 0) break;
    end_ += arrived;
  }
  return std::span(buffer_).subspan(begin_, held());
}

void RecordSource::skip(std::uint64_t bytes) {
  const std::uint64_t from_buffer = std::min<std::uint64_t>(bytes, held());
  begin_ += from_buffer;
  if (bytes > from_buffer) pass(bytes - from_buffer);
}

void RecordSource::close() {
  free_memory(buffer_);
  begin_ = end_ = 0;
}

/// Moves the unread bytes to the front. The buffer grows only if unread bytes fill it, so it never holds much more than
/// the bytes that arrived, even if a damaged header asks for more.
void RecordSource::make_room(std::size_t piece_bytes) {
  std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
  end_ -= std::exchange(begin_, 0);
  if (end_ == buffer_.size()) buffer_.resize(std::max(piece_bytes, 2 * buffer_.size()));
}

}  // namespace carillon
