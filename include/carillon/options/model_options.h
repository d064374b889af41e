// ModelOptions: which network is trained or evaluated, and from which seed.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/models/network.h"

namespace carillon {

struct ModelOptions {
  std::string name;                ///< one of the program's networks; the model's name in checkpoints
  MakeNetwork make = nullptr;      ///< the network of that name; not an option
  std::uint64_t seed = 1;          ///< for initial variables, sample order and augmentation
  double drop_path = 0.0;          ///< stochastic depth: rate of the last residual block
  bool sync_batch_norm = false;    ///< batch statistics over all ranks
  bool freeze_batch_norm = false;  ///< batch norms use their running statistics, and keep them
};

}  // namespace carillon
