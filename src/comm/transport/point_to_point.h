// PointToPoint: messages between members, under way at the same time, and the wait for all of them.
//
// Messages between two members arrive in the order in which they were sent, so all members start the same exchanges in
// the same order; no more names them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "src/comm/mpi/members.h"

namespace carillon {

class PointToPoint {
 public:
  /// `members` outlive the exchange.
  explicit PointToPoint(const Members& members) : members_(members) {}
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;
  /// Gives up what has not come; MPI may still read and write the memory of such messages.
  ~PointToPoint();

  /// `bytes` stay as they are until `wait` has returned.
  void send(std::span<const std::byte> bytes, int to);
  /// `to` must be as long as what `from` sends.
  void receive(std::span<std::byte> to, int from);

  /// Returns once all has been sent and received. Errors: failed, when that takes longer than the members' limit.
  void wait(std::string_view operation);
  /// Whether nothing is left to wait for.
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

/// Every member's `mine`, by rank, in `all`: equal sizes. Collective.
void gather_bytes(const Members& members, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::string_view operation);
/// The root's bytes to all members. Collective.
void broadcast_bytes(const Members& members, std::span<std::byte> bytes, int root, std::string_view operation);
/// Returns once every member has called it.
void meet(const Members& members, std::string_view operation);

}  // namespace carillon
