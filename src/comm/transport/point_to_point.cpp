#include "src/comm/transport/point_to_point.h"

#include <algorithm>
#include <cstring>

namespace carillon {
namespace {

/// Calls call(begin, bytes) for pieces that fit MPI's int counts. Calls it at least once, so an empty message also
/// tells the receiver that the sender has arrived.
template <typename Call>
void in_pieces(std::size_t bytes, const Call& call) {
  constexpr std::size_t piece = std::size_t{1} << 30;
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(piece, bytes - begin);
    call(begin, static_cast<int>(count));
    begin += count;
  } while (begin < bytes);
}

bool is_over(MPI_Request& request) {
  int over = 0;
  check_mpi(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
  return over != 0;
}

}  // namespace

PointToPoint::~PointToPoint() {
  for (Message& message : messages_) {
    if (message.incoming) MPI_Cancel(&message.request);
    MPI_Request_free(&message.request);
  }
}

void PointToPoint::send(std::span<const std::byte> bytes, int to) {
  in_pieces(bytes.size(), [&](std::size_t begin, int count) {
    messages_.push_back({to, false, MPI_REQUEST_NULL});
    check_mpi(MPI_Isend(bytes.data() + begin, count, MPI_BYTE, to, 0, members_.comm(), &messages_.back().request),
              "MPI_Isend");
  });
}

void PointToPoint::receive(std::span<std::byte> to, int from) {
  in_pieces(to.size(), [&](std::size_t begin, int count) {
    messages_.push_back({from, true, MPI_REQUEST_NULL});
    check_mpi(MPI_Irecv(to.data() + begin, count, MPI_BYTE, from, 0, members_.comm(), &messages_.back().request),
              "MPI_Irecv");
  });
}

std::vector<int> PointToPoint::missing() {
  std::erase_if(messages_, [](Message& message) { return is_over(message.request); });
  std::vector<int> peers;
  for (const Message& message : messages_) peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

void PointToPoint::wait(std::string_view operation) {
  constexpr int spins = 256;  // a poll of MPI costs more than a read of memory
  const auto arrived = [&] {
    while (!messages_.empty() && is_over(messages_.back().request)) messages_.pop_back();
    return messages_.empty();
  };
  members_.bounded_wait().wait(operation, spins, arrived, [&] { return missing(); });
}

void gather_bytes(const Members& members, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::string_view operation) {
  PointToPoint exchange(members);
  for (int rank = 0; rank < members.size(); ++rank) {
    const std::span place(all.data() + static_cast<std::size_t>(rank) * mine.size(), mine.size());
    if (rank == members.rank()) {
      if (!mine.empty()) std::memcpy(place.data(), mine.data(), mine.size());
    } else {
      exchange.receive(place, rank);
    }
  }
  for (int rank = 0; rank < members.size(); ++rank) {
    if (rank != members.rank()) exchange.send(mine, rank);
  }
  exchange.wait(operation);
}

std::vector<std::string> gather_texts(const Members& members, std::string_view text, std::string_view operation) {
  const auto count = static_cast<std::size_t>(members.size());
  std::vector<std::size_t> lengths(count);
  const std::size_t length = text.size();
  gather_bytes(members, std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)), operation);
  std::vector<std::string> texts;
  for (const std::size_t bytes : lengths) texts.emplace_back(bytes, '\0');
  texts[members.rank()] = text;
  PointToPoint exchange(members);
  for (int rank = 0; rank < members.size(); ++rank) {
    if (rank != members.rank()) exchange.receive(std::as_writable_bytes(std::span(texts[rank])), rank);
  }
  for (int rank = 0; rank < members.size(); ++rank) {
    if (rank != members.rank()) exchange.send(std::as_bytes(std::span(text)), rank);
  }
  exchange.wait(operation);
  return texts;
}

void broadcast_bytes(const Members& members, std::span<std::byte> bytes, int root, std::string_view operation) {
  PointToPoint exchange(members);
  if (members.rank() != root) exchange.receive(bytes, root);
  for (int rank = 0; rank < members.size() && members.rank() == root; ++rank) {
    if (rank != root) exchange.send(bytes, rank);
  }
  exchange.wait(operation);
}

void meet(const Members& members, std::string_view operation) { gather_bytes(members, {}, {}, operation); }

}  // namespace carillon
