#include "src/comm/mpi/mpi.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "src/comm/allreduce/communicators.h"
#include "src/comm/mpi/launcher.h"
#include "src/comm/mpi/members.h"
#include "src/core/has_cuda.h"
#include "src/core/process.h"

namespace carillon {
namespace {

/// For example "Open MPI v4.1.4".
std::string library_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view whole(text.data(), static_cast<std::size_t>(length));
  return std::string(whole.substr(0, whole.find_first_of(",\n")));
}

/// [ranks] The lowest rank on the same host. Collective.
std::vector<int> lowest_ranks_on_hosts(int rank, int size) {
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  int lowest = rank;
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, local), "MPI_Bcast");
  MPI_Comm_free(&local);
  std::vector<int> all(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  return all;
}

/// [ranks] The host number of each rank. `lowest_ranks`: the result of lowest_ranks_on_hosts. The host with the
/// smallest of these ranks is host 0, the next is host 1, and so on.
std::vector<int> numbered_hosts(const std::vector<int>& lowest_ranks) {
  std::vector<int> distinct = lowest_ranks;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<int> hosts;
  for (const int rank : lowest_ranks) {
    hosts.push_back(static_cast<int>(std::lower_bound(distinct.begin(), distinct.end(), rank) - distinct.begin()));
  }
  return hosts;
}

}  // namespace

Mpi::Mpi(int* argc, char*** argv) {
  check_launcher();
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  hosts_ = numbered_hosts(lowest_ranks_on_hosts(rank_, size_));
  Members all(MPI_COMM_WORLD, {});
  Members local = all.split(hosts_[rank_], rank_);
  local_rank_ = local.rank();
  local_size_ = local.size();
  ranks_ = std::make_unique<Ranks>(std::move(all), std::move(local));
  host_ = host_name();
  check_that_ranks_are_connected(size_, library_text());
}

std::vector<std::string> comm_libraries() {
  std::string text = library_text();
  if (const std::size_t at = text.find(" v"); at != text.npos) text.erase(at + 1, 1);
  std::vector<std::string> libraries = {std::move(text)};
  if constexpr (has_cuda) libraries.push_back(nccl_version());
  return libraries;
}

Mpi::~Mpi() {
  ranks_.reset();
  MPI_Finalize();
}

void Mpi::limit_waits(WaitLimit limit) const {
  ranks_->all.bounded_wait().set_limit(limit);
  ranks_->local.bounded_wait().set_limit(limit);
}

std::vector<std::string> Mpi::all_gather(std::string_view text) const {
  return gather_texts(ranks_->all, text, "a gather");
}

std::vector<std::string> Mpi::local_all_gather(std::string_view text) const {
  return gather_texts(ranks_->local, text, "a gather");
}

void Mpi::broadcast(std::span<std::byte> bytes, int root) const {
  broadcast_bytes(ranks_->all, bytes, root, "a broadcast");
}

std::vector<std::byte> Mpi::sendrecv(std::span<const std::byte> own, int to, int from) const {
  if (to == rank_) return {own.begin(), own.end()};
  const auto message = [&](std::span<const std::byte> sent, std::span<std::byte> received) {
    PointToPoint exchange(ranks_->all);
    exchange.send(sent, to);
    exchange.receive(received, from);
    exchange.wait("an exchange");
  };
  const std::array<std::size_t, 1> size{own.size()};
  std::array<std::size_t, 1> size_of_other{};
  message(std::as_bytes(std::span(size)), std::as_writable_bytes(std::span(size_of_other)));
  std::vector<std::byte> received(size_of_other[0]);
  message(own, received);
  return received;
}

void Mpi::sum(std::span<std::int64_t> values) const {
  std::vector<std::int64_t> all(values.size() * static_cast<std::size_t>(size_));
  gather_bytes(ranks_->all, std::as_bytes(values), std::as_writable_bytes(std::span(all)), "a sum");
  std::fill(values.begin(), values.end(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) values[i % values.size()] += all[i];
}

void Mpi::barrier() const { meet(ranks_->all, "a barrier"); }

void Mpi::run_on_all(const std::function<void()>& part) const {
  std::string message;
  int code = 0;
  try {
    part();
  } catch (const Error& error) {
    message = error.what();
    code = static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    message = "out of memory";
    code = static_cast<int>(ExitCode::failed);
  } catch (const std::exception& error) {
    message = error.what();
    code = static_cast<int>(ExitCode::failed);
  }
  std::vector<int> codes(static_cast<std::size_t>(size_));
  gather_bytes(ranks_->all, std::as_bytes(std::span(&code, 1)), std::as_writable_bytes(std::span(codes)),
               "checking whether all ranks succeeded");
  const auto lowest = std::find_if(codes.begin(), codes.end(), [](int other) { return other != 0; });
  if (lowest == codes.end()) return;
  if (lowest - codes.begin() == rank_) throw SharedError(static_cast<ExitCode>(*lowest), message);
  throw PeerFailed(static_cast<ExitCode>(*lowest));
}

void Mpi::abort(ExitCode code) const {
  // MPI_Abort of Open MPI 4.1 hangs if several ranks call it at the same time.
  constexpr double abort_seconds = 1.5;
  exit_after(abort_seconds, static_cast<int>(code));
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace carillon
