#include "src/run/staging.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/dataset.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Copy {
  std::string from;
  fs::path to;
  std::uint64_t bytes = 0;
};

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    fail(error == ENOENT ? ExitCode::no_input : ExitCode::io, "{}: {}", path.string(), errno_text(error));
  }
  return status;
}

bool is_copied(const Copy& copy) {
  struct stat there {};
  if (::stat(copy.to.c_str(), &there) != 0) return false;
  const struct stat here = status_of(copy.from);
  return there.st_size == here.st_size && there.st_mtim.tv_sec == here.st_mtim.tv_sec &&
         there.st_mtim.tv_nsec == here.st_mtim.tv_nsec;
}

/// With its time of change, by which it is known again.
void carry_out(const Copy& copy, const std::function<void()>& get_on) {
  const Descriptor source = open_plain_file(copy.from, copy.from);
  const struct stat before = status_of(copy.from);
  std::error_code error;
  fs::create_directories(copy.to.parent_path(), error);
  if (error) fail(ExitCode::io, "{}: {}", copy.to.parent_path().string(), error.message());
  NewFile file(copy.to);
  std::vector<std::byte> piece(std::size_t{4} << 20);
  for (std::size_t count = piece.size(); count == piece.size();) {
    if (const int failed = read_all(source.get(), piece, count); failed != 0) {
      fail(ExitCode::io, "{}: {}", copy.from, errno_text(failed));
    }
    file.write(std::span(piece).first(count));
    get_on();
  }
  file.finish();
  file.publish();
  const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
  if (::utimensat(AT_FDCWD, copy.to.c_str(), times.data(), 0) != 0) {
    fail(ExitCode::io, "{}: {}", copy.to.string(), errno_text(errno));
  }
}

/// Numbers of the files that this host's ranks read.
std::set<std::size_t> needed_here(std::size_t file_count, bool by_file, const Mpi& mpi) {
  std::set<std::size_t> needed;
  for (int rank = 0; rank < mpi.size(); ++rank) {
    if (mpi.hosts()[rank] != mpi.hosts()[mpi.rank()]) continue;
    const FileShare share = by_file ? file_share(file_count, rank, mpi.size()) : FileShare{0, file_count};
    for (std::size_t i = share.begin; i < share.end; ++i) needed.insert(i);
  }
  return needed;
}

void check_room(const std::vector<Copy>& copies, const fs::path& directory, const std::string& host) {
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies) bytes += copy.bytes;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(ExitCode::io, "--stage {}: {}, on {}", directory.string(), error.message(), host);
  const fs::space_info space = fs::space(directory, error);
  if (error || bytes <= space.available) return;
  fail(ExitCode::io, "--stage {}: {:.1f} GB are to be copied, and {:.1f} are free on {}", directory.string(),
       1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(space.available), host);
}

/// A line now and then while a rank copies its files.
class CopyProgress {
 public:
  CopyProgress(std::size_t count, bool tells) : count_(count), tells_(tells) {}
  void done() {
    ++done_;
    constexpr std::chrono::seconds interval{10};
    if (!tells_ || done_ == count_ || Clock::now() - told_ < interval) return;
    told_ = Clock::now();
    print_text(STDERR_FILENO, fmt::format("staging: rank 0 has copied {} of its {} files\n", done_, count_));
  }

 private:
  std::size_t count_, done_ = 0;
  bool tells_;
  Clock::time_point told_ = Clock::now();
};

}  // namespace

std::vector<std::string> stage_files(const std::vector<std::string>& paths, const StagingSettings& settings,
                                     const Mpi& mpi) {
  const Clock::time_point start = Clock::now();
  std::vector<std::string> staged = paths;
  std::vector<Copy> copies;  // of this host
  mpi.run_on_all([&] {
    for (const std::size_t i : needed_here(paths.size(), settings.by_file, mpi)) {
      const fs::path from = fs::absolute(paths[i]).lexically_normal();
      Copy copy{paths[i], settings.directory / from.relative_path(), 0};
      copy.bytes = static_cast<std::uint64_t>(status_of(copy.from).st_size);
      staged[i] = copy.to.string();
      if (!is_copied(copy)) copies.push_back(std::move(copy));
    }
    check_room(copies, settings.directory, mpi.host());
  });
  std::array<std::int64_t, 2> copied{};
  mpi.run_on_all([&] {
    std::vector<const Copy*> own;
    for (std::size_t i = mpi.local_rank(); i < copies.size(); i += mpi.local_size()) own.push_back(&copies[i]);
    CopyProgress progress(own.size(), mpi.rank() == 0);
    for (const Copy* copy : own) {
      carry_out(*copy, settings.get_on);
      progress.done();
      copied[0] += 1;
      copied[1] += static_cast<std::int64_t>(copy->bytes);
    }
  });
  mpi.sum(copied);
  if (mpi.rank() == 0) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    print_text(STDOUT_FILENO,
               fmt::format("staged in {}: {} files copied ({:.2f} GB in {:.1f} s), the others were there\n",
                           settings.directory.string(), copied[0], 1e-9 * static_cast<double>(copied[1]), seconds));
  }
  return staged;
}

}  // namespace carillon
