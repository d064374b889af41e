#include "carillon/core/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace carillon {

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // ISA-L takes the length as an int
  std::uint32_t state = ~seed;
  do {
    const auto piece = data.first(std::min(data.size(), piece_bytes));
    // ISA-L only reads the buffer; its declaration lacks the const.
    auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = crc32_iscsi(bytes, static_cast<int>(piece.size()), state);
    data = data.subspan(piece.size());
  } while (!data.empty());
  return ~state;
}

}  // namespace carillon
