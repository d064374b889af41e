#include "src/images/huffman_table.h"

#include <algorithm>

namespace carillon {

HuffmanSymbol HuffmanTable::symbol(int index) const {
  const int symbol = symbols[static_cast<std::size_t>(index)];
  if (kind == Kind::dc) return {1, symbol};
  const int run = symbol >> 4, size = symbol & 15;
  return {size == 0 && run != 15 ? jpeg_block_end : run + 1, size};
}

void HuffmanTable::make_ones() {
  ones.fill({});
  unsigned code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const auto at = static_cast<std::size_t>(length);
    offsets_[at] = index - static_cast<int>(code);
    for (int i = 0; i < counts[at]; ++i, ++code, ++index) {
      if (length > look_bits || code >> length != 0) continue;
      const auto [advance, size] = symbol(index);
      const int value_bits = std::min(size, look_bits - length);  // of which whole values are made
      const std::size_t first = std::size_t{code} << (look_bits - length);
      for (std::size_t j = 0; j < std::size_t{1} << (look_bits - length); ++j) {
        const std::uint64_t behind_code = std::uint64_t{first + j} << (64 - look_bits) << length;
        ones[first + j] = {.value = static_cast<std::int16_t>(huffman_value(behind_code, value_bits)),
                           .advance = static_cast<std::uint8_t>(advance),
                           .code_bits = static_cast<std::uint8_t>(length),
                           .bits = static_cast<std::uint8_t>(length + size)};
      }
    }
    ends_[at] = code << (16 - length);
  }
}

HuffmanTable::Pair HuffmanTable::pair_at(std::size_t pattern) const {
  const One& first = ones[pattern];
  if (!first.whole()) return 0;
  const One& second = ones[(pattern << first.bits) & (look_size - 1)];
  const bool both = first.advance != jpeg_block_end && second.whole() && first.bits + second.bits <= look_bits;
  const One& last = both ? second : first;
  const auto word = [](int value, int bits, int shift) {
    return (static_cast<Pair>(value) & ((Pair{1} << bits) - 1)) << shift;
  };
  return word(first.bits + (both ? second.bits : 0), 8, 0) | word(first.advance, 8, 8) |
         word(both ? second.advance : 0, 8, 16) | word(first.bits, 8, 24) | word(first.value, 16, 32) |
         word(last.value, 16, 48);
}

HuffmanTable::Stride HuffmanTable::stride_at(std::size_t pattern) const {
  int advance = 0, bits = 0;
  while (bits < look_bits && advance < jpeg_block_end) {
    const One& next = ones[(pattern << bits) & (look_size - 1)];
    const int further = next.advance == jpeg_block_end ? jpeg_block_end + 1 : next.advance;
    if (next.code_bits == 0 || bits + next.code_bits > look_bits) break;
    if ((advance + further) % jpeg_block_end >= jpeg_block_size) break;
    advance += further;
    bits += next.bits;
  }
  return {static_cast<std::uint8_t>(advance), static_cast<std::uint8_t>(bits)};
}

void HuffmanTable::make(const std::uint8_t (&source_counts)[17], const std::uint8_t (&source_symbols)[256], Kind what) {
  if (kind == what && std::ranges::equal(counts, source_counts) && std::ranges::equal(symbols, source_symbols)) return;
  kind = what;
  std::ranges::copy(source_counts, counts.begin());
  std::ranges::copy(source_symbols, symbols.begin());
  make_ones();
  if (kind == Kind::dc) return;
  for (std::size_t pattern = 0; pattern < look_size; ++pattern) {
    pairs[pattern] = pair_at(pattern);
    strides[pattern] = stride_at(pattern);
  }
}

bool HuffmanTable::find_long(unsigned bits, HuffmanSymbol& found, int& code_bits) const {
  for (int length = look_bits + 1; length <= 16; ++length) {
    const auto at = static_cast<std::size_t>(length);
    if (bits >= ends_[at]) continue;
    found = symbol(offsets_[at] + static_cast<int>(bits >> (16 - length)));
    code_bits = length;
    return true;
  }
  return false;
}

}  // namespace carillon
