#include "src/comm/transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/comm/mpi/members.h"
#include "src/core/text.h"

namespace carillon {
namespace {

using Progress = SharedArrays::Progress;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the counters are shared between processes");

constexpr std::size_t cache_line = 64;
constexpr std::string_view operation = "setting up shared memory";
constexpr std::string_view dev_shm = "/dev/shm";
/// Bytes of /dev/shm per rank that the segment leaves free. Open MPI's file in /dev/shm grows up to 4 MiB per rank.
constexpr std::size_t bytes_for_messages = std::size_t{8} << 20;

std::string size(std::size_t bytes) { return size_text(static_cast<double>(bytes)); }

/// A file that member 0 creates. The other members open the file by its path.
struct SharedFile {
  Descriptor descriptor;
  std::string path;
  std::string target;  ///< target of `path`, if `path` is a link in /proc; empty: `path` is the name of the file
};

/// Returns the target of a link in /proc. For a memory file, the target is "/memfd:NAME (deleted)".
std::string target_of(const std::string& link) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  if (length < 0) fail(ExitCode::io, "cannot read the link {}: {}", link, errno_text(errno));
  return {target.data(), static_cast<std::size_t>(length)};
}

SharedFile create_memory_file(std::size_t bytes) {
  std::random_device random;  // makes the name unique among the memory files of the host
  const std::string name = fmt::format("carillon-{:08x}{:08x}", random(), random());
  Descriptor file(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    fail(ExitCode::io, "cannot create a memory file: {}", errno_text(errno));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), file.get());
  return {std::move(file), path, target_of(path)};
}

SharedFile create_file(const std::string& directory, std::size_t bytes, int members) {
  struct statvfs room {};
  if (statvfs(directory.c_str(), &room) != 0) fail(ExitCode::io, "{}: {}", directory, errno_text(errno));
  const std::size_t available = std::size_t{room.f_bavail} * room.f_frsize;
  const std::size_t left = directory == dev_shm ? static_cast<std::size_t>(members) * bytes_for_messages : 0;
  if (available < bytes + left) {
    fail(ExitCode::io, "{} has {} free{}", directory, size(available),
         left == 0 ? "" : fmt::format(", of which MPI needs {}", size(left)));
  }
  std::string path = directory + "/carillon-shared-XXXXXX";
  Descriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (!file) fail(ExitCode::io, "cannot create a file in {}: {}", directory, errno_text(errno));
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    unlink(path.c_str());
    fail(ExitCode::io, "cannot enlarge a file in {}: {}", directory, errno_text(error));
  }
  return {std::move(file), path, ""};
}

Descriptor open_file(const std::string& path, const std::string& target) {
  // In another PID namespace, the same process ID belongs to another process. Opening a file of that process may block
  // or have side effects.
  if (!target.empty() && target_of(path) != target) {
    fail(ExitCode::io, "{} is not rank 0's memory file: another PID namespace?", path);
  }
  Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail(ExitCode::io, "cannot open {}: {}", path, errno_text(errno));
  return file;
}

/// Allocates the disk blocks of bytes [begin, end).
void reserve(const SharedFile& file, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  int error = EINTR;
  while (error == EINTR) {
    error = posix_fallocate(file.descriptor.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  }
  if (error != 0) fail(ExitCode::io, "cannot allocate {} in {}: {}", size(end - begin), file.path, errno_text(error));
}

/// Removes a file's name at the end of the scope.
struct NameRemoval {
  std::string path;
  ~NameRemoval() {
    if (!path.empty()) unlink(path.c_str());
  }
};

/// Maps a file. `file`: its descriptor, or nullopt to map memory of this process only.
void* map_memory(std::optional<int> file, std::size_t bytes) {
  const int kind = file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, file.value_or(-1), 0);
  if (data == MAP_FAILED) fail(ExitCode::io, "cannot map {}: {}", size(bytes), errno_text(errno));
  return data;
}

/// Member 0 calls `create`, which returns a file, and every member maps this file. If one or more members fail, returns
/// null and appends the reason of the lowest of them. Collective.
void* map_file(const Members& members, std::span<const std::size_t> offsets, const std::function<SharedFile()>& create,
               std::vector<std::string>& reasons) {
  SharedFile file;
  void* data = nullptr;
  std::string problem;
  const auto attempt = [&](const std::function<void()>& part) {
    try {
      part();
    } catch (const Error& error) {
      problem = error.what();
    }
  };
  const bool is_creator = members.rank() == 0;
  if (is_creator) attempt([&] { file = create(); });
  const NameRemoval name{file.target.empty() ? file.path : ""};
  file.path = gather_texts(members, file.path, operation).front();
  file.target = gather_texts(members, file.target, operation).front();
  if (!file.path.empty()) {
    attempt([&] {
      if (!is_creator) file.descriptor = open_file(file.path, file.target);
      const auto own = static_cast<std::size_t>(members.rank());
      if (file.target.empty()) reserve(file, offsets[own], offsets[own + 1]);
      data = map_memory(file.descriptor.get(), offsets.back());
    });
  }
  const std::vector<std::string> problems = gather_texts(members, problem, operation);
  const auto first = std::ranges::find_if(problems, [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return data;
  if (data != nullptr) munmap(data, offsets.back());
  const auto rank = first - problems.begin();
  reasons.push_back(rank == 0 ? *first : fmt::format("rank {}: {}", members.bounded_wait().ranks()[rank], *first));
  return nullptr;
}

/// Prints the warning only once per process: a run has several segments, and each would print it.
void warn_of_place(const std::string& place, const std::vector<std::string>& reasons) {
  static bool has_warned = false;
  if (std::exchange(has_warned, true)) return;
  print_text(STDERR_FILENO, fmt::format("warning: the shared memory of the ranks is in {}, which may be slower: {}\n",
                                        place, fmt::join(reasons, "; ")));
}

/// If all ranks of the run are members, throws errors that all ranks share (SharedError, PeerFailed). Otherwise throws
/// an ordinary Error.
[[noreturn]] void fail_on_all(const Members& members, const std::string& message) {
  int ranks = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  if (members.size() < ranks) fail(ExitCode::io, "{}", message);
  if (members.rank() == 0) throw SharedError(ExitCode::io, message);
  throw PeerFailed(ExitCode::io);
}

}  // namespace

SharedSegment::Places SharedSegment::default_places() {
  Places places{.memory_file = true, .directories = {std::string(dev_shm)}};
  const auto add = [&](const char* directory) {
    if (directory == nullptr || directory[0] != '/') return;
    if (std::ranges::find(places.directories, directory) == places.directories.end()) {
      places.directories.emplace_back(directory);
    }
  };
  add(std::getenv("TMPDIR"));
  add(std::getenv("SLURM_TMPDIR"));
  add("/tmp");
  return places;
}

SharedSegment::SharedSegment(const Members& members, std::size_t bytes, const Places& places) : offsets_{0} {
  std::vector<std::size_t> parts(static_cast<std::size_t>(members.size()));
  gather_bytes(members, std::as_bytes(std::span(&bytes, 1)), std::as_writable_bytes(std::span(parts)), operation);
  for (const std::size_t part : parts) {
    offsets_.push_back(offsets_.back() + (part + cache_line - 1) / cache_line * cache_line);
  }
  const std::size_t total = offsets_.back();
  if (members.size() == 1) {
    data_ = static_cast<std::byte*>(map_memory(std::nullopt, total));
    return;
  }
  std::vector<std::string> reasons;
  void* data = nullptr;
  if (places.memory_file)
    data = map_file(
        members, offsets_, [&] { return create_memory_file(total); }, reasons);
  for (const std::string& directory : places.directories) {
    if (data != nullptr) break;
    place_ = "a file in " + directory;
    const auto create = [&] { return create_file(directory, total, members.size()); };
    data = map_file(members, offsets_, create, reasons);
    if (data != nullptr && directory != dev_shm && members.rank() == 0) warn_of_place(place_, reasons);
  }
  if (data == nullptr) {
    constexpr std::size_t gibibyte = std::size_t{1} << 30;
    fail_on_all(members,
                fmt::format("{} ranks require {} of shared memory: {}; set TMPDIR to a local directory with room, or "
                            "enlarge /dev/shm, for example with docker run --shm-size={}g",
                            members.size(), size(total), fmt::join(reasons, "; "), 1 + 2 * total / gibibyte));
  }
  data_ = static_cast<std::byte*>(data);
}

SharedSegment::~SharedSegment() { munmap(data_, offsets_.back()); }

std::string try_shared_segment(const Mpi& mpi, std::size_t bytes) {
  return SharedSegment(mpi.ranks().local, bytes).place();
}

SharedArrays::SharedArrays(const Members& members, std::size_t bytes)
    // The part of a member consists of Progress and, after it, the array.
    : members_(members), segment_(members, sizeof(Progress) + bytes) {
  std::byte* const own_part = segment_.part(members.rank());
  std::memset(own_part, 0, sizeof(Progress) + bytes);  // the first write places the pages near this member's cores
  new (own_part) Progress;
  for (int rank = 0; rank < members.size(); ++rank) {
    progress_.push_back(reinterpret_cast<Progress*>(segment_.part(rank)));
    arrays_.push_back(reinterpret_cast<float*>(progress_.back() + 1));
  }
  meet(members, "setting up shared memory");
}

bool SharedArrays::have_all_reached(Counter counter, std::uint64_t goal) const {
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!has_reached(counter, rank, goal)) return false;
  }
  return true;
}

std::vector<int> SharedArrays::missing(Counter counter, std::uint64_t goal) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!has_reached(counter, rank, goal)) ranks.push_back(rank);
  }
  return ranks;
}

void SharedArrays::wait_for(int first, int last, Counter counter, std::uint64_t goal,
                            std::string_view operation) const {
  const auto missing_ones = [&] {
    std::vector<int> ranks = missing(counter, goal);
    std::erase_if(ranks, [&](int rank) { return rank < first || rank >= last; });
    return ranks;
  };
  for (int rank = first; rank < last; ++rank) {
    members_.bounded_wait().wait(
        operation, wait_spins, [&] { return has_reached(counter, rank, goal); }, missing_ones);
  }
}

}  // namespace carillon
