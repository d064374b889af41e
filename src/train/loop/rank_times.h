// RankTimes: the time that each rank works in a step, and a warning of stragglers.
//
// All ranks take equal times for a step, because they wait for each other. A straggler works while the others wait.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/stall_detector.h"

namespace carillon {

class RankTimes {
 public:
  /// Measures from step `step` on. The references outlive this.
  RankTimes(const Mpi& mpi, const StallDetector& stall_detector, std::int64_t step);

  /// By rank: seconds of work in data and compute per step, as a mean over the steps from the last call to before
  /// `step`. Collective if there are several hosts. On one host only rank 0's result is meaningful.
  std::vector<double> since_last(std::int64_t step);
  /// By rank: all seconds of work since the stall detector started. Collective and meaningful as since_last.
  std::vector<double> worked() const;

 private:
  const Mpi& mpi_;
  const StallDetector& stall_detector_;
  std::int64_t step_;
  std::vector<double> last_;  ///< by rank
};

/// Finds a rank that the other ranks wait for.
class Stragglers {
 public:
  /// `hosts`: by rank, the name of its host.
  explicit Stragglers(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  /// Adds the times of a few steps, which took `seconds` together. Returns a warning when a rank becomes a straggler:
  /// its time is above 1.5 times the upper median of the others, and 5 ms above it. This must hold three times in a row
  /// and for half a minute, because other programs delay ranks for shorter times.
  std::optional<std::string> add(std::span<const double> rank_seconds, double seconds);

 private:
  std::vector<std::string> hosts_;
  int slow_rank_ = -1, times_ = 0;
  double slow_for_ = 0.0;
  bool has_warned_ = false;
};

}  // namespace carillon
