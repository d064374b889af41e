#include "src/data/records/gzip_stream.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "carillon/core/error.h"

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
        15 + 16;  // largest window; + 16 selects the GZIP header and trailer instead of zlib's
    if (inflateInit2(&stream, gzip_window_bits) != Z_OK) throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&stream); }

  /// Next compressed bytes: at least `bytes`, fewer only at the end.
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
  std::size_t piece_begin = 0, piece_end = 0;  // unconsumed part of `piece`
  std::uint64_t consumed = 0;                  // number of compressed bytes
  bool in_member = false;                      // after a member's first byte and before its trailer
  std::string damage;                          // thrown after all bytes before the damage are returned
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
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest.data()));  // zlib does not write to it
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

}  // namespace carillon
