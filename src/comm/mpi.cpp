#include "carillon/comm/mpi.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <numeric>

#include "carillon/core/host_name.h"

namespace carillon {
namespace {

/// Under srun without a matching PMI every process is rank 0 of 1 and would train alone, on the same files.
void refuse_unconnected_slurm_ranks(int size) {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool under_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (size == 1 && tasks != nullptr && std::atoi(tasks) > 1 && !under_mpirun) {
    fail(ExitCode::usage, "Slurm started {} tasks, but MPI sees only this one: start with srun --mpi=pmix", tasks);
  }
}

}  // namespace

void check_mpi(int status, std::string_view call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail(ExitCode::failed, "{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

Mpi::Mpi(int* argc, char*** argv) {
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local_comm_),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(local_comm_, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(local_comm_, &local_size_), "MPI_Comm_size");
  host_ = host_name();
  refuse_unconnected_slurm_ranks(size_);
}

Mpi::~Mpi() {
  MPI_Comm_free(&local_comm_);
  MPI_Finalize();
}

std::vector<std::string> Mpi::gather_texts(MPI_Comm comm, std::string_view text) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size)), offsets(lengths.size());
  check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather");
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  check_mpi(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, comm),
            "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

std::vector<std::string> Mpi::all_gather(std::string_view text) const { return gather_texts(MPI_COMM_WORLD, text); }

std::vector<std::string> Mpi::local_all_gather(std::string_view text) const { return gather_texts(local_comm_, text); }

void Mpi::broadcast(std::span<std::byte> bytes, int root) const {
  constexpr std::size_t piece = std::size_t{1} << 30;  // MPI counts are int
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const int count = static_cast<int>(std::min(piece, bytes.size() - at));
    check_mpi(MPI_Bcast(bytes.data() + at, count, MPI_BYTE, root, MPI_COMM_WORLD), "MPI_Bcast");
  }
}

void Mpi::sum(std::span<std::int64_t> values) const {
  check_mpi(
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
      "MPI_Allreduce");
}

void Mpi::barrier() const { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

void Mpi::together(const std::function<void()>& part) const {
  std::string message;
  int code = 0;
  try {
    part();
  } catch (const Error& error) {
    message = error.what();
    code = static_cast<int>(error.code());
  } catch (const std::exception& error) {
    message = error.what();
    code = static_cast<int>(ExitCode::failed);
  }
  int lowest = 0;
  const int failing = code != 0 ? rank_ : INT_MAX;
  check_mpi(MPI_Allreduce(&failing, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (lowest == INT_MAX) return;
  broadcast(std::as_writable_bytes(std::span(&code, 1)), lowest);
  if (lowest == rank_) throw SharedError(static_cast<ExitCode>(code), message);
  throw PeerFailed(static_cast<ExitCode>(code));
}

void Mpi::abort(ExitCode code) const {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace carillon
