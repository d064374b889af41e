// HuffmanTable: a JPEG's Huffman table (ITU-T T.81, C and F.2.2) as look-ups by the next bits of the data, which give
// symbols together with the values that follow them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace carillon {

/// Coefficients of a block.
inline constexpr int jpeg_block_size = 64;
/// What a symbol that ends a block advances by: more than any place in one.
inline constexpr int jpeg_block_end = 128;

/// The most bits of a value.
inline constexpr int huffman_max_size = 15;

/// A value of `size` (0 to 15) bits, the upper ones of `bits` (T.81, F.2.2.1, EXTEND).
inline int huffman_value(std::uint64_t bits, int size) {
  if (size == 0) return 0;
  const int value = static_cast<int>(bits >> (64 - size));
  return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

/// A symbol.
struct HuffmanSymbol {
  int advance = 1;  ///< places in the block: 1 to 16, or jpeg_block_end
  int size = 0;     ///< bits of its value
};

struct HuffmanTable {
  static constexpr int look_bits = 11;
  static constexpr std::size_t look_size = std::size_t{1} << look_bits;

  enum class Kind { dc, ac };

  /// As in the file: how many codes there are of each length from 1 on, and the codes' symbols. libjpeg has checked
  /// that these are a Huffman table; of others symbols are wrong, and no more.
  std::array<std::uint8_t, 17> counts{};
  std::array<std::uint8_t, 256> symbols{};

  /// One symbol.
  struct One {
    std::int16_t value = 0;  ///< where `whole`
    std::uint8_t advance = 0;
    std::uint8_t code_bits = 0;  ///< 0: more than look_bits, or none at all
    std::uint8_t bits = 0;       ///< of the code and the value

    /// Whether look_bits have its value, too.
    bool whole() const { return code_bits != 0 && bits <= look_bits; }
  };
  std::array<One, look_size> ones{};

  /// One symbol or two of AC coefficients, with whole values; 0: none. It is one word, since reading it is what each
  /// look-up waits for. From the lowest bit on, eight bits each: bits of both, the first's advance, the second's (0:
  /// there is one), bits of the first; then sixteen each: their values (the first's again where it is alone).
  using Pair = std::uint64_t;
  std::array<Pair, look_size> pairs{};

  /// As many symbols of one block's AC coefficients as look_bits have the codes of, for who wants no values.
  struct Stride {
    std::uint8_t advance = 0;  ///< of all; where they end the block, jpeg_block_end and 1 for that
    std::uint8_t bits = 0;     ///< with the last value's, which may be further ones; 0: none
  };
  std::array<Stride, look_size> strides{};

  Kind kind = Kind::dc;

  /// Makes it of a table as in the file, unless it is that already.
  void make(const std::uint8_t (&source_counts)[17], const std::uint8_t (&source_symbols)[256], Kind what);

  HuffmanSymbol symbol(int index) const;
  /// The symbol whose code of more than look_bits these 16 bits begin with. False: there is none.
  bool find_long(unsigned bits, HuffmanSymbol& symbol, int& code_bits) const;

 private:
  std::array<std::uint32_t, 17> ends_{};  ///< of codes of up to this length, as 16 bits
  std::array<int, 17> offsets_{};         ///< from a code to its symbol's index

  void make_ones();
  Pair pair_at(std::size_t pattern) const;
  Stride stride_at(std::size_t pattern) const;
};

}  // namespace carillon
