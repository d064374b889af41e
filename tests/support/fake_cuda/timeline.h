// The work of the fake devices: the enqueued pieces, their dependencies, and the order in which they run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <vector>

namespace fake_cuda {

/// One piece of work.
struct Work {
  std::function<void()> run;
  int lane = 0;
  int blockers = 0;  ///< number of pieces of work that must be done before this one
  bool done = false;
  std::vector<std::shared_ptr<Work>> dependents;
};
using WorkRef = std::shared_ptr<Work>;

/// Runs pieces of work that are ready. The next piece is from the lane with the highest priority. Priorities change at
/// random moments.
class Timeline {
 public:
  WorkRef add(std::function<void()> run, int lane, std::span<const WorkRef> after);
  /// Work that does not end before it is released.
  WorkRef add_stalled();
  void release(const WorkRef& stalled);
  /// Runs `work`. Before it, runs the work on which it depends, in random order.
  void run_until_done(const WorkRef& work);
  void run_some(std::uint64_t pieces);
  void run_all();

  void seed(std::uint64_t value) { random_.seed(value); }
  std::uint64_t draw(std::uint64_t bound) { return random_() % bound; }

 private:
  WorkRef take_next();
  void run_one();

  std::mt19937_64 random_{1};
  std::uint64_t priorities_ = 0;  ///< the priority of a lane is a hash of this number
  std::vector<WorkRef> ready_;
};

Timeline& timeline();
/// The lock that every function of the API holds.
std::recursive_mutex& api_mutex();

}  // namespace fake_cuda
