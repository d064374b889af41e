#include "src/train/control/control_flags.h"

#include <array>

namespace carillon {

ControlFlags requested_by_any(const Mpi& mpi, const ControlFlags& own) {
  std::array<std::int64_t, 3> counts{own.save, own.stop, own.give_up};
  mpi.sum(counts);
  return {.save = counts[0] > 0, .stop = counts[1] > 0, .give_up = counts[2] > 0};
}

}  // namespace carillon
