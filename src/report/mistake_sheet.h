// Mistake sheet: a contact sheet of the pictures that a classifier is most certain about, and wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/images/picture.h"

namespace carillon {

/// A picture with its classes.
struct ShownPrediction {
  Picture picture;                    ///< RGB, at most sheet_tile_side pixels per side
  std::string true_class, predicted;  ///< names
  double probability = 0.0;           ///< of the predicted class
  bool is_mistake = false;
  std::string origin = {};  ///< of the record, for reports
};

/// The largest number of pictures of a sheet.
inline constexpr std::size_t max_sheet_mistakes = 64;

/// A PNG file. Below each picture: the true class, the predicted class and its probability, one per line. Without
/// mistakes, a tile says so.
std::string mistake_sheet(const std::vector<ShownPrediction>& mistakes);

/// Checks that the sheet can be written; changes nothing. Errors: usage (the name does not end in .png), io.
void check_sheet_place(const std::filesystem::path& path);
/// Writes the whole file or nothing. Errors: io.
void write_mistake_sheet(const std::filesystem::path& path, const std::vector<ShownPrediction>& mistakes);

}  // namespace carillon
