#include "src/data/records/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/resources.h"
#include "src/data/records/mapped_file.h"

namespace carillon {
namespace {

constexpr std::size_t magic_bytes = 2;

}  // namespace

bool is_gzip(std::span<const std::byte> data) {
  return data.size() >= magic_bytes && data[0] == std::byte{0x1F} && data[1] == std::byte{0x8B};
}

struct GzipStream::State {
  explicit State(ByteInput compressed) : input(std::move(compressed)), piece(max_piece_bytes) {
    constexpr int gzip_window_bits =
        15 + 16;  // 15 is the largest window. Adding 16 selects GZIP's header and trailer instead of zlib's
    if (inflateInit2(&stream, gzip_window_bits) != Z_OK) throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&stream); }

  /// Returns the next compressed bytes: at least `bytes`, or fewer at the end.
  std::span<const std::byte> peek(std::size_t bytes) {
    if (piece_end - piece_begin < bytes) {
      std::copy(piece.begin() + piece_begin, piece.begin() + piece_end, piece.begin());
      piece_end -= std::exchange(piece_begin, 0);
      piece_end += input(std::span(piece).subspan(piece_end));
    }
    return std::span(piece).subspan(piece_begin, piece_end - piece_begin);
  }

  static constexpr std::size_t max_piece_bytes = std::size_t{64} << 10;
  ByteInput input;
  std::vector<std::byte> piece;                // compressed bytes
  std::size_t piece_begin = 0, piece_end = 0;  // the part of `piece` that is not yet consumed
  std::uint64_t consumed = 0;                  // number of compressed bytes that were consumed
  bool in_member = false;                      // true: after a member's first byte and before its trailer
  // Message of an error that is thrown after all bytes before the damage have been returned.
  std::string damage;
  z_stream stream{};
};

GzipStream::GzipStream(ByteInput compressed) : state_(std::make_unique<State>(std::move(compressed))) {}
GzipStream::GzipStream(GzipStream&&) noexcept = default;
GzipStream& GzipStream::operator=(GzipStream&&) noexcept = default;
GzipStream::~GzipStream() = default;

namespace {

constexpr std::size_t zlib_bytes(std::size_t bytes) {
  return std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max());
}

}  // namespace

std::size_t GzipStream::read(std::span<std::byte> out) {
  State& state = *state_;
  z_stream& stream = state.stream;
  std::size_t written = 0;
  while (written < out.size() && state.damage.empty()) {
    const auto rest = state.peek(state.in_member ? 1 : magic_bytes);
    if (!state.in_member) {
      if (rest.empty()) break;
      if (!is_gzip(rest)) {
        state.damage = fmt::format("trailing bytes that are not GZIP data at compressed byte {}", state.consumed);
        break;
      }
      inflateReset(&stream);
      state.in_member = true;
    }
    // zlib does not write to these bytes.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest.data()));
    stream.avail_in = static_cast<uInt>(zlib_bytes(rest.size()));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(zlib_bytes(out.size() - written));
    const auto offered_in = stream.avail_in, offered_out = stream.avail_out;
    const int result = inflate(&stream, Z_NO_FLUSH);
    state.piece_begin += offered_in - stream.avail_in;
    state.consumed += offered_in - stream.avail_in;
    written += offered_out - stream.avail_out;
    if (result == Z_STREAM_END) {
      state.in_member = false;
    } else if (result == Z_BUF_ERROR || (result == Z_OK && offered_in == 0)) {
      state.damage = fmt::format("the GZIP data is truncated at compressed byte {}", state.consumed);
    } else if (result != Z_OK) {
      state.damage = fmt::format("the GZIP data is damaged near compressed byte {} ({})", state.consumed,
                                 stream.msg ? stream.msg : zError(result));
    }
  }
  if (written == 0 && !out.empty() && !state.damage.empty()) throw Error(ExitCode::data, state.damage);
  return written;
}

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
  void pass(std::uint64_t /*bytes*/) override {}  // nothing to do, because all counted bytes are in the buffer

  /// Returns the next bytes of the file. Copies the bytes, so that zlib never touches pages of a truncated file.
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

/// Moves the unread bytes to the front. The buffer grows only if unread bytes fill it. Therefore it is never much
/// larger than the bytes that have arrived, even if a damaged header states a larger size.
void RecordSource::make_room(std::size_t piece_bytes) {
  std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
  end_ -= std::exchange(begin_, 0);
  if (end_ == buffer_.size()) buffer_.resize(std::max(piece_bytes, 2 * buffer_.size()));
}

}  // namespace carillon
