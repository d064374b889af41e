// Mistake sheet: a contact sheet of the pictures whose predictions are furthest from their targets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/report/shown_prediction.h"

namespace carillon {

/// The largest number of pictures of a sheet.
inline constexpr std::size_t max_sheet_mistakes = 64;

/// A PNG file. Below each picture, one per line: what is true, what is predicted, and the rating of the prediction.
/// Without mistakes, a tile says so.
std::string mistake_sheet(const std::vector<ShownPrediction>& mistakes);

/// Checks that the sheet can be written; changes nothing. Errors: usage (the name does not end in .png), io.
void check_sheet_place(const std::filesystem::path& path);
/// Writes the whole file or nothing. Errors: io.
void write_mistake_sheet(const std::filesystem::path& path, const std::vector<ShownPrediction>& mistakes);

}  // namespace carillon
