#include "src/comm/mpi/members.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

namespace carillon {
namespace {

MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return copy;
}

std::vector<int> own_ranks(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Calls call(begin, bytes) for pieces that fit MPI's int counts. Calls `call` at least once: an empty message also
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

void check_mpi(int status, std::string_view call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail(ExitCode::failed, "{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

void progress_mpi() {
  int there = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

std::string rank_list(std::vector<int> ranks) {
  constexpr std::size_t max_listed = 8;
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() > max_listed) {
    return fmt::format("ranks {} and {} more", fmt::join(std::span(ranks).first(max_listed), ", "),
                       ranks.size() - max_listed);
  }
  return fmt::format("ranks {} and {}", fmt::join(std::span(ranks).first(ranks.size() - 1), ", "), ranks.back());
}

void BoundedWait::give_up(std::string_view operation, const std::vector<int>& members) const {
  if (members.empty()) return;
  fail(ExitCode::lost_rank, "waited {:g} s for {} in {}", limit_.seconds, rank_list(ranks_of(members)), operation);
}

void BoundedWait::observe(std::string_view operation, const std::vector<int>& members, double seconds) const {
  if (!members.empty()) limit_.observer->still_waiting(operation, ranks_of(members), seconds);
}

std::vector<int> BoundedWait::ranks_of(const std::vector<int>& members) const {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(ranks_[member]);
  return ranks;
}

Members::Members(MPI_Comm comm, WaitLimit limit) : Members(copy_of(comm), BoundedWait(limit, own_ranks(comm))) {}

Members::Members(MPI_Comm own, BoundedWait bounded_wait) : comm_(own), bounded_wait_(std::move(bounded_wait)) {
  check_mpi(MPI_Comm_rank(own, &rank_), "MPI_Comm_rank");
}

void Members::free(MPI_Comm comm) { MPI_Comm_free(&comm); }

Members Members::split(int color, int key) const {
  meet(*this, "a split");  // this wait has a limit; a wait in MPI_Comm_split would have none
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm(), color, key, &part), "MPI_Comm_split");
  std::vector<int> ranks = own_ranks(part);
  const int name = bounded_wait_.ranks()[rank_];
  check_mpi(MPI_Allgather(&name, 1, MPI_INT, ranks.data(), 1, MPI_INT, part), "MPI_Allgather");
  return {part, BoundedWait(bounded_wait_.limit(), std::move(ranks))};
}

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
  constexpr int spins = 256;  // poll MPI rarely, because a poll of MPI costs more than a read of memory
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
