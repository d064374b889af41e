// Members: a set of ranks with an MPI communicator, a limit for waits, and messages between the ranks. Every group of
// communicating ranks is a Members object. BoundedWait: the only loop in which a rank waits for other ranks.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/core/handle.h"
#include "carillon/core/parallel.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Throws Error(failed) with MPI's error text unless `status` is MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

/// Makes MPI progress. Call it while this rank waits outside MPI, because peers that wait inside MPI may need this
/// rank's progress.
void progress_mpi();

/// "rank 3", "ranks 1, 2 and 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more".
std::string rank_list(std::vector<int> ranks);

/// A wait for other ranks. The wait polls `spins` times, then yields the core between polls, because there may be more
/// ranks than cores. After that, every 16th poll makes MPI progress. If there is a limit or an observer, this poll also
/// reads the clock. If all ranks have already arrived, the wait needs only one poll.
class BoundedWait {
 public:
  /// `ranks`: for each member, the rank number that error messages use.
  BoundedWait(WaitLimit limit, std::vector<int> ranks) : limit_(limit), ranks_(std::move(ranks)) {}

  WaitLimit limit() const { return limit_; }
  void set_limit(WaitLimit limit) { limit_ = limit; }
  const std::vector<int>& ranks() const { return ranks_; }

  /// Returns as soon as `arrived()` is true. Polls `spins` times before it yields the core. `missing()` returns the
  /// members that have not arrived. Errors: lost_rank (the limit passes first; the message names the missing members
  /// and the operation).
  template <typename Arrived, typename Missing>
  void wait(std::string_view operation, int spins, const Arrived& arrived, const Missing& missing) const {
    if (arrived()) return;
    const bool timed = std::isfinite(limit_.seconds) || limit_.observer != nullptr;
    const auto start = timed ? Clock::now() : Clock::time_point{};
    const auto passed = [&] { return timed ? std::chrono::duration<double>(Clock::now() - start).count() : 0.0; };
    if (!arrives_soon(spins, arrived)) {
      double next_call = observe_seconds;
      for (unsigned polls = 1; !arrived(); ++polls) {
        sched_yield();
        if (polls % 16 != 0) continue;
        progress_mpi();
        const double seconds = passed();
        if (seconds > limit_.seconds) give_up(operation, missing());
        if (limit_.observer != nullptr && seconds > next_call) {
          observe(operation, missing(), seconds);
          next_call = seconds + observe_seconds;
        }
      }
    }
    if (limit_.observer != nullptr) limit_.observer->waited(passed());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double observe_seconds = 0.1;  ///< between calls of the observer

  template <typename Arrived>
  static bool arrives_soon(int spins, const Arrived& arrived) {
    for (int spin = 1; spin < spins; ++spin) {
      spin_pause();
      if (arrived()) return true;
    }
    return false;
  }

  /// Throws the error about the missing `members`. If `members` is empty, the last member has just arrived, and the
  /// function returns.
  void give_up(std::string_view operation, const std::vector<int>& members) const;
  /// Calls the observer. If `members` is empty, the last member has just arrived, and the function does nothing.
  void observe(std::string_view operation, const std::vector<int>& members, double seconds) const;

  /// Returns the rank numbers that error messages use for these members.
  std::vector<int> ranks_of(const std::vector<int>& members) const;

  WaitLimit limit_;
  std::vector<int> ranks_;
};

class Members {
 public:
  /// The ranks of `comm`, in a duplicated communicator. Error messages number them 0, 1, ... Collective.
  Members(MPI_Comm comm, WaitLimit limit);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bounded_wait_.ranks().size()); }
  MPI_Comm comm() const { return comm_.get(); }
  const BoundedWait& bounded_wait() const { return bounded_wait_; }
  BoundedWait& bounded_wait() { return bounded_wait_; }

  /// Returns the members with the same `color`, ordered by key and then by rank. In error messages, the members keep
  /// their numbers. Collective.
  Members split(int color, int key) const;

 private:
  Members(MPI_Comm own, BoundedWait bounded_wait);
  static void free(MPI_Comm comm);

  Handle<MPI_Comm, &Members::free> comm_;
  int rank_ = 0;
  BoundedWait bounded_wait_;
};

/// All ranks of the run, and the ranks of this host.
struct Mpi::Ranks {
  Members all, local;
};

/// Messages between members. Several messages can be in flight at the same time, and one call of `wait` waits for all
/// of them.
///
/// Messages have no tags: a member receives the messages of another member in the order in which they were sent.
/// Therefore all members must start the same exchanges in the same order.
class PointToPoint {
 public:
  /// `members` outlive this object.
  explicit PointToPoint(const Members& members) : members_(members) {}
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;
  /// Abandons messages that have not arrived. MPI may still read and write their memory.
  ~PointToPoint();

  /// Starts to send `bytes` to member `to`. `bytes` must not change until `wait` returns.
  void send(std::span<const std::byte> bytes, int to);
  /// Starts to receive a message of member `from`. `to` must be as long as this message.
  void receive(std::span<std::byte> to, int from);

  /// Returns when all messages are sent and received. Errors: lost_rank (the limit of the members passes first).
  void wait(std::string_view operation);
  /// True if no message is in flight.
  bool over() const { return messages_.empty(); }

 private:
  struct Message {
    int peer;
    bool incoming;
    MPI_Request request;
  };
  std::vector<int> missing();

  const Members& members_;
  std::vector<Message> messages_;
};

/// Gathers the bytes `mine` of every member into `all`, in the order of the ranks. `mine` has the same size on all
/// members. Collective.
void gather_bytes(const Members& members, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::string_view operation);
/// [members] The text of each member. Collective.
std::vector<std::string> gather_texts(const Members& members, std::string_view text, std::string_view operation);
/// Copies the bytes of `root` to all members. Collective.
void broadcast_bytes(const Members& members, std::span<std::byte> bytes, int root, std::string_view operation);
/// A barrier: returns when every member has called it.
void meet(const Members& members, std::string_view operation);

}  // namespace carillon
