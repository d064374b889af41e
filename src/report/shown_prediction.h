// ShownPrediction: a record as a page or a sheet shows it.
#pragma once

#include <optional>
#include <string>

#include "src/images/picture.h"

namespace carillon {

struct ShownPrediction {
  std::string truth, predicted;       ///< "cat"; "cat, dog"; "12.5"
  std::string rating;                 ///< of the prediction: its probability, loss or error
  std::optional<bool> is_right = {};  ///< none: predictions of this task are neither right nor wrong
  Picture picture = {};               ///< RGB, at most sheet_tile_side pixels per side
  std::string origin = {};            ///< of the record: "test-0: record 17, cat.jpg"
};

}  // namespace carillon
