#include "src/models/position_grid.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "tests/support/float_arrays.h"

namespace carillon::testing {
namespace {

std::vector<float> floats_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<float> values;
  for (float value = 0.0f; words >> value;) values.push_back(value);
  return values;
}

TEST(PositionGrid, IsResizedAsByTimm) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/position_grids.txt");
  int cases = 0;
  std::int64_t side = 0, new_side = 0, channels = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream(line) >> side >> new_side >> channels;
    std::string positions, resized;
    std::getline(file, positions);
    std::getline(file, resized);
    SCOPED_TRACE(line);
    const std::vector<std::int64_t> from{1, 1 + side * side, channels}, to{1, 1 + new_side * new_side, channels};
    ASSERT_TRUE(are_position_grids(from, to));
    expect_near(resized_positions(floats_of(positions), from, to), floats_of(resized), 1e-6);
  }
  EXPECT_EQ(cases, 5);
}

TEST(PositionGrid, IsSquareAndKeepsItsChannels) {
  EXPECT_TRUE(are_position_grids({1, 5, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 5, 3}, {1, 17, 4}));
  EXPECT_FALSE(are_position_grids({1, 5, 3}, {1, 16, 3}));
  EXPECT_FALSE(are_position_grids({1, 4, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 1, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, -3, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({5, 3}, {1, 17, 3}));
  EXPECT_TRUE(are_position_grids({1, 1 + 256 * 256, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, 1 + 257 * 257, 3}, {1, 17, 3}));
  EXPECT_FALSE(are_position_grids({1, std::numeric_limits<std::int64_t>::max(), 0}, {1, 17, 0}));
}

}  // namespace
}  // namespace carillon::testing
