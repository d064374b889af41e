#include "src/report/mistake_sheet.h"

#include <fmt/format.h>

#include <span>

#include "carillon/core/file.h"
#include "src/images/picture.h"
#include "src/report/output_place.h"

namespace carillon {
namespace {

/// A name as one line of a tile.
std::string line_of(std::string name) {
  for (char& c : name) c = c == '\n' ? ' ' : c;
  return name;
}

}  // namespace

std::string mistake_sheet(const std::vector<ShownPrediction>& mistakes) {
  std::vector<SheetTile> tiles;
  for (const ShownPrediction& shown : mistakes) {
    tiles.push_back(
        {.height = shown.picture.height,
         .width = shown.picture.width,
         .pixels = shown.picture.pixels,
         .text = fmt::format("{}\n> {}\n{}", line_of(shown.truth), line_of(shown.predicted), shown.rating)});
  }
  if (tiles.empty()) tiles.push_back({.text = "no mistakes"});
  return encode_png(make_sheet(tiles));
}

void check_sheet_place(const std::filesystem::path& path) { check_output_place("mistakes", path, ".png"); }

void write_mistake_sheet(const std::filesystem::path& path, const std::vector<ShownPrediction>& mistakes) {
  const std::string file = mistake_sheet(mistakes);
  write_file_atomically(path, std::as_bytes(std::span(file)));
}

}  // namespace carillon
