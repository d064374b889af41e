// Members: a set of ranks with an MPI communicator, a limit for waits, and messages between the ranks. Every group of
// communicating ranks is a Members object.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/handle.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/bounded_wait.h"

namespace carillon {

/// Throws Error(failed) with MPI's error text unless `status` is MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

class Members {
 public:
  /// The ranks of `comm`, in a duplicated communicator. Error messages number them 0, 1, ... Collective.
  Members(MPI_Comm comm, WaitLimit limit);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bounded_wait_.ranks().size()); }
  MPI_Comm comm() const { return comm_.get(); }
  const BoundedWait& bounded_wait() const { return bounded_wait_; }
  BoundedWait& bounded_wait() { return bounded_wait_; }

  /// The members with the same `color`, ordered by key, then rank. Error messages keep the members' present numbers.
  /// Collective.
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

/// Messages between members that are in flight at the same time, and one wait for all of them.
///
/// Messages have no tags. Two members exchange messages in the order in which they were sent, so all members must start
/// the same exchanges in the same order.
class PointToPoint {
 public:
  /// `members` outlive the exchange.
  explicit PointToPoint(const Members& members) : members_(members) {}
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;
  /// Abandons messages that have not arrived. MPI may still read and write their memory.
  ~PointToPoint();

  /// `bytes` must not change until `wait` returns.
  void send(std::span<const std::byte> bytes, int to);
  /// `to` must be as long as the message that `from` sends.
  void receive(std::span<std::byte> to, int from);

  /// Returns when all messages are sent and received. Errors: lost_rank if the limit of the members passes first.
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

/// Gathers `mine` of every member into `all`, in the order of the ranks. `mine` has the same size on all members.
/// Collective.
void gather_bytes(const Members& members, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::string_view operation);
/// [members] The text of each member. Collective.
std::vector<std::string> gather_texts(const Members& members, std::string_view text, std::string_view operation);
/// Copies the bytes of `root` to all members. Collective.
void broadcast_bytes(const Members& members, std::span<std::byte> bytes, int root, std::string_view operation);
/// A barrier: returns when every member has called it.
void meet(const Members& members, std::string_view operation);

}  // namespace carillon
