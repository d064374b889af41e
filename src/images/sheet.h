// Contact sheets: small pictures side by side, each with a line of text below, to be looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// A picture of a sheet: RGB, [height][width][3], of at most `sheet_tile_side` pixels a side.
struct SheetTile {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::string text;  ///< as much as fits is written, in capital letters; what is not ASCII as a block
};

inline constexpr std::int64_t sheet_tile_side = 96;

/// The tiles, row by row, on grey, about as many columns as rows. Requires a tile.
Picture make_sheet(const std::vector<SheetTile>& tiles);

}  // namespace carillon
