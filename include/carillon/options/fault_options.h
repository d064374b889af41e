// FaultOptions: how a run detects and reports non-finite losses, replicas that differ, and ranks that hang.
#pragma once

#include <cstdint>

namespace carillon {

/// What a training does at a loss that is infinite or NaN.
enum class OnNan {
  stop,    ///< end the run
  report,  ///< first find out which op and which records caused it
};

struct FaultOptions {
  OnNan on_nan = OnNan::stop;
  std::int64_t check_replicas = 1000;  ///< steps between comparisons of the ranks' variables; 0: disabled
  std::int64_t audit = 0;              ///< steps between second computations of each rank's gradients (CPUs); 0: none
  double stall_timeout = 300.0;        ///< seconds without progress of a rank after which the run ends; 0: unlimited
};

}  // namespace carillon
