// PointToPoint: messages between members that are in flight at the same time, and one wait for all of them.
//
// Messages have no tags. Two members exchange messages in the order in which they were sent, so all members must start
// the same exchanges in the same order.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
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
  /// Abandons messages that have not arrived. MPI may still read and write their memory.
  ~PointToPoint();

  /// `bytes` must not change until `wait` returns.
  void send(std::span<const std::byte> bytes, int to);
  /// `to` must have the length of the message of `from`.
  void receive(std::span<std::byte> to, int from);

  /// Returns when all messages are sent and received. Errors: failed if the limit of the members passes first.
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

/// Gathers the `mine` of every member in `all`, by rank. All sizes are equal. Collective.
void gather_bytes(const Members& members, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::string_view operation);
/// [members] The text of each member. Collective.
std::vector<std::string> gather_texts(const Members& members, std::string_view text, std::string_view operation);
/// Copies the bytes of `root` to all members. Collective.
void broadcast_bytes(const Members& members, std::span<std::byte> bytes, int root, std::string_view operation);
/// A barrier: returns when every member has called it.
void meet(const Members& members, std::string_view operation);

}  // namespace carillon
