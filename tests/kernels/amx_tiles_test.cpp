// Tests the matrix products that use AMX's tile instructions (amx_tiles.cpp). Few processors have AMX, so this file
// compiles amx_tiles.cpp a second time, with functions in place of the instructions. On a processor with AMX, the tests
// Bf16Tiles (bf16_tiles_test.cpp) run the real instructions. No test checks whether the compiler moves memory accesses
// across the instructions.
#if defined(__x86_64__)

#include <gtest/gtest.h>
#include <immintrin.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/shared/bf16_tiles.h"
#include "src/core/process.h"
#include "tests/support/float_arrays.h"
#include "tests/support/tile_operands.h"

namespace carillon::testing {
namespace {

/// State of the emulated tile unit, and how many tile loads and products it has executed.
struct Tiles {
  std::array<std::array<std::uint8_t, 1024>, 8> tiles{};
  bool configured = false;
  int loads = 0, products = 0;
};
Tiles machine;

const Bf16TileKernels& emulation() { return bf16_tile_kernels(Isa::plain); }

void load_configuration(const void* configuration) {
  std::array<std::uint8_t, 64> bytes{};
  std::memcpy(bytes.data(), configuration, bytes.size());
  EXPECT_EQ(bytes[0], 1) << "palette";
  for (std::size_t tile = 0; tile < 8; ++tile) {
    EXPECT_EQ(bytes[16 + 2 * tile], 64) << "bytes of a row";
    EXPECT_EQ(bytes[48 + tile], 16) << "rows";
  }
  machine = {};
  machine.configured = true;
}
void release() { machine.configured = false; }
std::uint8_t* row_of(std::size_t tile, std::ptrdiff_t row) {
  EXPECT_TRUE(machine.configured);
  return machine.tiles[tile].data() + row * 64;
}
void set_to_zero(std::size_t tile) { std::memset(row_of(tile, 0), 0, 1024); }
void load(std::size_t tile, const void* from, std::ptrdiff_t stride) {
  ++machine.loads;
  for (std::ptrdiff_t row = 0; row < 16; ++row) {
    std::memcpy(row_of(tile, row), static_cast<const std::uint8_t*>(from) + row * stride, 64);
  }
}
void store(std::size_t tile, void* to, std::ptrdiff_t stride) {
  for (std::ptrdiff_t row = 0; row < 16; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(to) + row * stride, row_of(tile, row), 64);
  }
}
void multiply_add(std::size_t sums, std::size_t left, std::size_t right) {
  ++machine.products;
  std::array<Bf16, tile_elements> of_left, of_right;
  std::array<float, tile_sums> totals;
  store(left, of_left.data(), 64);
  store(right, of_right.data(), 64);
  store(sums, totals.data(), 64);
  const Bf16* const lefts = of_left.data();
  const std::int64_t offset = 0;
  emulation().multiply({.count = 1,
                        .steps = 1,
                        .left = &lefts,
                        .right = of_right.data(),
                        .right_offsets = &offset,
                        .sums = totals.data(),
                        .add = true});
  std::memcpy(row_of(sums, 0), totals.data(), 1024);
}

}  // namespace
}  // namespace carillon::testing

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig carillon::testing::load_configuration
#define _tile_release carillon::testing::release
#define _tile_zero carillon::testing::set_to_zero
#define _tile_loadd carillon::testing::load
#define _tile_stored carillon::testing::store
#define _tile_dpbf16ps carillon::testing::multiply_add
// The macros rename the functions of amx_tiles.cpp, so that they differ from the functions in the library.
#define begin_amx_tiles begin_tiles_under_test
#define end_amx_tiles end_tiles_under_test
#define multiply_amx_tiles multiply_tiles_under_test
#include "kernels/shared/amx_tiles.cpp"

namespace carillon::testing {
namespace {

struct AmxTiles : ::testing::Test {
  AmxTiles() {
    flush_denormals();
    begin_tiles_under_test();
  }
  ~AmxTiles() override {
    end_tiles_under_test();
    EXPECT_FALSE(machine.configured);
  }
};

TEST_F(AmxTiles, GiveTheBitsOfTheEmulation) {
  for (const int panels : {1, 2}) {
    for (int count = 1; count <= TileProduct::most_left(panels); ++count) {
      for (const std::int64_t steps : {0, 1, 5}) {
        for (const bool add : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << count << " left tiles, " << panels << " panels, " << steps << " steps, add: " << add);
          TileOperands operands(count, steps, 2.0f, 1, panels);
          operands.product.add = add;
          std::vector<float> expected = operands.sums;
          TileProduct emulated = operands.product;
          emulated.sums = expected.data();
          emulation().multiply(emulated);
          multiply_tiles_under_test(operands.product);
          EXPECT_TRUE(equal_bits(operands.sums, expected));
        }
      }
    }
  }
}

TEST_F(AmxTiles, LoadFewTiles) {
  struct Expected {
    int count, panels, loads, products;
  };
  for (const Expected& of : {Expected{6, 1, 7, 6}, Expected{3, 2, 7, 6}, Expected{2, 2, 4, 4}, Expected{1, 2, 3, 2}}) {
    const TileOperands operands(of.count, 10, 2.0f, 1, of.panels);
    machine.loads = machine.products = 0;
    multiply_tiles_under_test(operands.product);
    EXPECT_EQ(machine.products, 10 * of.products);
    EXPECT_EQ(machine.loads, 10 * of.loads);
  }
}

}  // namespace
}  // namespace carillon::testing

#endif
