#include "src/images/jpeg_huffman.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "src/images/huffman_table.h"

// The parts of a decompressor, of which libjpeg's authors meant that one may be put in another's place.
#if defined(LIBJPEG_TURBO_VERSION) && __has_include(<jpegint.h>)
#define CARILLON_JPEG_PARTS 1
#include <jerror.h>
#include <jpegint.h>
#else
#define CARILLON_JPEG_PARTS 0
#endif

namespace carillon {
namespace {

/// Where the k-th coefficient goes: T.81's zigzag order (figure 5). Past the block's end lies its last coefficient,
/// which what ends a block sets to the 0 that it is; what runs past the end does, too, and is given up.
constexpr std::array<std::uint8_t, 2 * jpeg_block_end> make_order() {
  std::array<std::uint8_t, 2 * jpeg_block_end> order{};
  order.fill(jpeg_block_size - 1);
  std::size_t place = 0;
  for (int diagonal = 0; diagonal < 2 * DCTSIZE - 1; ++diagonal) {
    const int first = std::max(0, diagonal - DCTSIZE + 1), last = std::min(diagonal, DCTSIZE - 1);
    for (int i = first; i <= last; ++i) {
      const int row = diagonal % 2 == 0 ? diagonal - i : i;
      order[place++] = static_cast<std::uint8_t>(row * DCTSIZE + diagonal - row);
    }
  }
  return order;
}
constexpr auto zigzag = make_order();

/// The bits of a scan, without the zeros stuffed behind 0xFF, up to a marker; zeros behind it.
class Bits {
 public:
  static constexpr int refilled = 56;

  Bits() = default;
  Bits(const std::uint8_t* next, const std::uint8_t* end) : next_(next), end_(end) {}

  static_assert(std::endian::native == std::endian::little, "eight bytes are read as one word");

  /// There are `refilled` or more behind it.
  void refill() {
    if (end_ - next_ >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, next_, sizeof word);
      constexpr std::uint64_t ones = ~std::uint64_t{0} / 255;
      if (((~word - ones) & word & (ones << 7)) == 0) {  // no byte is 0xFF
        window_ |= __builtin_bswap64(word) >> count_;
        next_ += (63 - count_) >> 3;
        count_ |= refilled;
        return;
      }
    }
    refill_by_bytes();
  }
  /// The next ones, from the top down.
  std::uint64_t window() const { return window_; }
  std::size_t look() const { return static_cast<std::size_t>(window_ >> (64 - HuffmanTable::look_bits)); }
  void drop(std::uint64_t bits) {
    window_ <<= bits;
    count_ -= static_cast<unsigned>(bits);
  }
  /// Whether more were taken than there are.
  bool overran() const { return count_ < made_up_; }
  /// Behind what was read; no further than the marker.
  const std::uint8_t* next() const { return next_; }

  /// Goes on behind the marker that restarts, of this number (0 to 7). False: it does not come next.
  bool restart(unsigned number) {
    if (count_ >= made_up_ + 8) return false;
    const std::uint8_t* marker = next_;
    while (end_ - marker >= 2 && marker[0] == 0xFF && marker[1] == 0xFF) ++marker;
    if (end_ - marker < 2 || marker[0] != 0xFF || marker[1] != 0xD0 + number) return false;
    *this = Bits(marker + 2, end_);
    return true;
  }

 private:
  void refill_by_bytes() {
    window_ &= count_ == 0 ? 0 : ~std::uint64_t{0} << (64 - count_);
    for (; count_ < refilled; count_ += 8) {
      std::uint64_t byte = 0;
      if (made_up_ == 0 && next_ < end_ && *next_ != 0xFF) {
        byte = *next_++;
      } else if (made_up_ == 0 && end_ - next_ >= 2 && next_[1] == 0) {
        byte = 0xFF;
        next_ += 2;
      } else {
        made_up_ += 8;
      }
      window_ |= byte << (refilled - count_);
    }
  }

  std::uint64_t window_ = 0;  ///< behind the `count_` first, right ones or 0
  unsigned count_ = 0, made_up_ = 0;
  const std::uint8_t *next_ = nullptr, *end_ = nullptr;
};

}  // namespace

struct JpegHuffmanReader::State {
  struct Block {
    std::size_t component = 0;
    bool needs_ac = true;
    const HuffmanTable *dc = nullptr, *ac = nullptr;
  };

  Bits bits;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks;
  std::size_t block_count = 0;
  std::array<int, MAX_COMPS_IN_SCAN> last_dc{};
  JDIMENSION column = 0, columns = 0;           ///< of units
  JDIMENSION first_wanted = 0, end_wanted = 0;  ///< of them
  unsigned restart_interval = 0, until_restart = 0, restart_number = 0;
  bool gave_up = false;
  std::array<HuffmanTable, NUM_HUFF_TBLS> dc_tables, ac_tables;  ///< kept: most files have the same

  // Each is false where the data are not as they should be.
  bool read_unit(JBLOCKROW* unit);
  bool read_dc(const Block& block, int& value);
  bool read_ac(const HuffmanTable& table, JCOEF* coefficients);
  bool pass_ac(const HuffmanTable& table);
  bool read_one(const HuffmanTable& table, std::size_t& place, int& value);
};

static_assert(16 + huffman_max_size <= Bits::refilled);

/// Any symbol and its value, of refilled bits.
bool JpegHuffmanReader::State::read_one(const HuffmanTable& table, std::size_t& place, int& value) {
  const HuffmanTable::One& one = table.ones[bits.look()];
  HuffmanSymbol symbol{one.advance, one.bits - one.code_bits};
  int code_bits = one.code_bits;
  if (code_bits == 0 && !table.find_long(static_cast<unsigned>(bits.window() >> 48), symbol, code_bits)) return false;
  bits.drop(static_cast<std::uint64_t>(code_bits));
  value = huffman_value(bits.window(), symbol.size);
  bits.drop(static_cast<std::uint64_t>(symbol.size));
  place += static_cast<std::size_t>(symbol.advance);
  return true;
}

bool JpegHuffmanReader::State::read_dc(const Block& block, int& value) {
  bits.refill();
  std::size_t place = 0;
  int difference = 0;
  if (!read_one(*block.dc, place, difference)) return false;
  value = last_dc[block.component] += difference;
  return value >= -32768 && value <= 32767;
}

bool JpegHuffmanReader::State::read_ac(const HuffmanTable& table, JCOEF* coefficients) {
  constexpr std::size_t last = jpeg_block_size - 1;
  Bits local = bits;  // in registers
  std::size_t place = 0;
  while (place < last) {
    local.refill();
    if (const std::size_t look = local.look(); table.pairs[look] == 0) {
      int value = 0;
      if (const HuffmanTable::One& one = table.ones[look]; one.code_bits != 0) {
        local.drop(one.code_bits);
        value = huffman_value(local.window(), one.bits - one.code_bits);
        local.drop(static_cast<std::uint64_t>(one.bits - one.code_bits));
        place += one.advance;
      } else {
        bits = local;
        if (!read_one(table, place, value)) return false;
        local = bits;
      }
      coefficients[zigzag[place]] = static_cast<JCOEF>(value);
      continue;
    }
    for (int i = 0; i < Bits::refilled / HuffmanTable::look_bits && place < last; ++i) {
      const HuffmanTable::Pair pair = table.pairs[local.look()];
      if (pair == 0) break;
      place += pair >> 8 & 255;
      coefficients[zigzag[place]] = static_cast<JCOEF>(pair >> 32);
      if (place >= last) {  // a second is the next block's
        local.drop(pair >> 24 & 63);
        break;
      }
      local.drop(pair & 63);
      place += pair >> 16 & 255;
      coefficients[zigzag[place]] = static_cast<JCOEF>(pair >> 48);
    }
  }
  bits = local;
  return place == last || place >= jpeg_block_end;
}

bool JpegHuffmanReader::State::pass_ac(const HuffmanTable& table) {
  constexpr std::size_t last = jpeg_block_size - 1;
  constexpr int strides_a_refill = Bits::refilled / (HuffmanTable::look_bits + huffman_max_size);
  Bits local = bits;
  std::size_t place = 0;
  while (place < last) {
    local.refill();
    for (int i = 0; i < strides_a_refill && place < last; ++i) {
      const std::size_t look = local.look();
      const HuffmanTable::Stride stride = table.strides[look];
      if (stride.bits != 0 && (place + stride.advance) % jpeg_block_end <= last) {
        local.drop(stride.bits);
        place += stride.advance;
      } else if (const HuffmanTable::One& one = table.ones[look]; one.bits != 0) {
        local.drop(one.bits);
        place += one.advance;
      } else {
        bits = local;
        bits.refill();
        int value = 0;
        if (!read_one(table, place, value)) return false;
        local = bits;
        break;
      }
    }
  }
  bits = local;
  return place == last || place >= jpeg_block_end;
}

/// One "minimum coded unit" (T.81, A.2), whose coefficients are 0 before; null: of no interest.
bool JpegHuffmanReader::State::read_unit(JBLOCKROW* unit) {
  if (restart_interval != 0 && until_restart-- == 0) {
    if (!bits.restart(restart_number)) return false;
    restart_number = (restart_number + 1) % 8;
    until_restart = restart_interval - 1;
    last_dc.fill(0);
  }
  const bool wanted = unit != nullptr && column >= first_wanted && column < end_wanted;
  for (std::size_t i = 0; i < block_count; ++i) {
    const Block& block = blocks[i];
    int dc = 0;
    if (!read_dc(block, dc)) return false;
    if (wanted) (*unit[i])[0] = static_cast<JCOEF>(dc);
    if (!(wanted && block.needs_ac ? read_ac(*block.ac, *unit[i]) : pass_ac(*block.ac))) return false;
  }
  column = column + 1 == columns ? 0 : column + 1;
  return !bits.overran();
}

JpegHuffmanReader::JpegHuffmanReader() : state_(std::make_unique<State>()) {}
JpegHuffmanReader::~JpegHuffmanReader() = default;
bool JpegHuffmanReader::gave_up() { return std::exchange(state_->gave_up, false); }

#if CARILLON_JPEG_PARTS

namespace {

boolean decode_unit(j_decompress_ptr jpeg, JBLOCKROW* unit) {
  auto& state = *static_cast<JpegHuffmanReader::State*>(jpeg->client_data);
  if (!state.read_unit(unit)) {
    state.gave_up = true;
    jpeg->err->msg_code = JWRN_HUFF_BAD_CODE;
    jpeg->err->error_exit(reinterpret_cast<j_common_ptr>(jpeg));
  }
  if (state.column == 0) {  // behind the last row, libjpeg looks there for a marker
    jpeg_source_mgr& source = *jpeg->src;
    source.bytes_in_buffer -= static_cast<std::size_t>(state.bits.next() - source.next_input_byte);
    source.next_input_byte = state.bits.next();
  }
  return TRUE;
}

}  // namespace

bool JpegHuffmanReader::install(jpeg_decompress_struct& jpeg, JDIMENSION first, JDIMENSION count) {
  if (jpeg.progressive_mode || jpeg.arith_code || jpeg.inputctl->has_multiple_scans) return false;
  const auto has_table = [](const auto& tables, int number) {  // of a lossless scan libjpeg 3 checks but one
    return number >= 0 && number < NUM_HUFF_TBLS && tables[number] != nullptr;
  };
  for (int i = 0; i < jpeg.comps_in_scan; ++i) {
    const jpeg_component_info& component = *jpeg.cur_comp_info[i];
    if (!has_table(jpeg.dc_huff_tbl_ptrs, component.dc_tbl_no)) return false;
    if (!has_table(jpeg.ac_huff_tbl_ptrs, component.ac_tbl_no)) return false;
  }
  State& state = *state_;
  state.bits = Bits(jpeg.src->next_input_byte, jpeg.src->next_input_byte + jpeg.src->bytes_in_buffer);
  state.last_dc.fill(0);
  state.block_count = static_cast<std::size_t>(jpeg.blocks_in_MCU);
  for (std::size_t i = 0; i < state.block_count; ++i) {
    const int index = jpeg.MCU_membership[i];
    const jpeg_component_info& component = *jpeg.cur_comp_info[index];
    const auto make = [](HuffmanTable& table, const JHUFF_TBL& source, HuffmanTable::Kind kind) {
      table.make(source.bits, source.huffval, kind);
      return &table;
    };
    const int dc = component.dc_tbl_no, ac = component.ac_tbl_no;
    state.blocks[i] = {.component = static_cast<std::size_t>(index),
                       .needs_ac = scaled_size(component) > 1,
                       .dc = make(state.dc_tables[dc], *jpeg.dc_huff_tbl_ptrs[dc], HuffmanTable::Kind::dc),
                       .ac = make(state.ac_tables[ac], *jpeg.ac_huff_tbl_ptrs[ac], HuffmanTable::Kind::ac)};
  }
  const auto unit_width =
      static_cast<JDIMENSION>(least_scaled_size(jpeg) * (jpeg.comps_in_scan == 1 ? 1 : jpeg.max_h_samp_factor));
  state.column = 0;
  state.columns = jpeg.MCUs_per_row;
  state.first_wanted = first / unit_width;
  state.end_wanted = (first + count + unit_width - 1) / unit_width;
  state.restart_interval = state.until_restart = jpeg.restart_interval;
  state.restart_number = 0;
  jpeg.client_data = &state;
  jpeg.entropy->decode_mcu = decode_unit;
  return true;
}

#else

bool JpegHuffmanReader::install(jpeg_decompress_struct&, JDIMENSION, JDIMENSION) { return false; }

#endif

}  // namespace carillon
