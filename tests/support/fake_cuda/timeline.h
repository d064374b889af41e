// The work of the fake devices: the enqueued pieces of work, their dependencies, and the order in which they run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <vector>

namespace fake_cuda {

/// One piece of work. `lane`: number of the stream.
struct Work {
  std::function<void()> run;
  int lane = 0;
  int blockers = 0;  ///< number of unfinished pieces of work that must be done before this piece
  bool done = false;
  std::vector<std::shared_ptr<Work>> dependents;
};
using WorkRef = std::shared_ptr<Work>;

/// Runs the pieces of work that are ready, one at a time. The next piece is from the lane with the highest priority.
/// The priorities change at random moments.
class Timeline {
 public:
  WorkRef add(std::function<void()> run, int lane, std::span<const WorkRef> after);
  /// Adds work that does not end before `release`.
  WorkRef add_stalled();
  void release(const WorkRef& stalled);
  /// Runs ready work of all lanes until `work` is done.
  void run_until_done(const WorkRef& work);
  void run_some(std::uint64_t pieces);
  void run_all();

  void seed(std::uint64_t value) { random_.seed(value); }
  std::uint64_t draw(std::uint64_t bound) { return random_() % bound; }

 private:
  WorkRef take_next();
  void run_one();

  std::mt19937_64 random_{1};
  std::uint64_t priorities_ = 0;  ///< a lane's priority is a hash of this number and of the lane's number
  std::vector<WorkRef> ready_;
};

Timeline& timeline();
/// Returns the mutex that every function of the API locks.
std::recursive_mutex& api_mutex();

}  // namespace fake_cuda
