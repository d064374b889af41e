// EvaluatedNetwork: what reports say about the network that an evaluation used.
#pragma once

#include <cstdint>
#include <string>

namespace carillon {

struct EvaluatedNetwork {
  std::string checkpoint;  ///< path
  std::string model;
  std::string values;  ///< which values of the checkpoint: "moving averages"
  std::int64_t step = 0;
};

}  // namespace carillon
