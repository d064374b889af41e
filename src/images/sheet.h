// Contact sheet: a grid of small pictures, each with lines of text below.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// A picture of a sheet: RGB, [height][width][3], at most `sheet_tile_side` pixels per side.
struct SheetTile {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::string text;  ///< each line is truncated to fit; capital letters; non-ASCII characters become a block
};

inline constexpr std::int64_t sheet_tile_side = 96;

/// Draws the tiles row by row on grey, with about as many columns as rows. Requires at least one tile.
Picture make_sheet(const std::vector<SheetTile>& tiles);

}  // namespace carillon
