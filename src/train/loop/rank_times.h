// RankTimes: how long each rank takes for its own part of a step, and who holds the others up.
//
// All ranks take the same time for a step, as they wait for each other; a straggler shows in the time that it does not
// wait.
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
  /// From step `step` on. References outlive this.
  RankTimes(const Mpi& mpi, const StallDetector& stall_detector, std::int64_t step);

  /// Seconds that each rank, by rank, has worked in data and compute for a step, as a mean over the steps from the last
  /// call to before `step`. Collective where there are several hosts; elsewhere what ranks other than 0 get says
  /// nothing.
  std::vector<double> since_last(std::int64_t step);
  /// Seconds that each has so worked since the stall detector began. Collective, and of use on rank 0, likewise.
  std::vector<double> worked() const;

 private:
  const Mpi& mpi_;
  const StallDetector& stall_detector_;
  std::int64_t step_;
  std::vector<double> last_;  ///< by rank
};

/// Finds the rank that holds the others up for some time.
class Stragglers {
 public:
  /// `hosts`: by rank, the name of its host.
  explicit Stragglers(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  /// After another few steps, which took `seconds`: what there is to warn of, once for each time that a rank becomes
  /// the slow one: half as slow again as the median of the others (of two in the middle, the slower), by 5 ms at least,
  /// three times in a row and for half a minute. What is shorter is some other program's passing.
  std::optional<std::string> look(std::span<const double> rank_seconds, double seconds);

 private:
  std::vector<std::string> hosts_;
  int slow_rank_ = -1, times_ = 0;
  double slow_for_ = 0.0;
  bool is_told_ = false;
};

}  // namespace carillon
