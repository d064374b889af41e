#include "src/train/input/records.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <set>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/data/dataset.h"
#include "carillon/data/record.h"
#include "src/core/text.h"
#include "src/report/console.h"
#include "src/train/control/agreement.h"
#include "src/train/control/stop_signal.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Copy {
  std::string from;
  fs::path to;
};

FileStamp stamp_of_source(const std::string& path) {
  const std::optional<FileStamp> stamp = stamp_of(fs::path(path));
  if (!stamp) fail(ExitCode::no_input, "{}: no such file", path);
  return *stamp;
}

/// Makes the directory, and checks that only this user can write there. The name of the directory is predictable, so
/// another user may have made it. Errors: usage, io.
void make_own_directory(const fs::path& directory) {
  const auto refuse = [&](const std::string& cause) {
    fail(ExitCode::usage, "--stage: {}: {}, or name another directory", directory.string(), cause);
  };
  struct stat status {};
  if (::mkdir(directory.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    fail(ExitCode::io, "--stage: {}: {}", directory.string(), errno_text(errno));
  }
  if (::lstat(directory.c_str(), &status) != 0) {
    fail(ExitCode::io, "--stage: {}: {}", directory.string(), errno_text(errno));
  }
  if (!S_ISDIR(status.st_mode)) refuse("is a link or no directory: remove it");
  if (status.st_uid != ::geteuid()) refuse(fmt::format("belongs to user {}: remove it", status.st_uid));
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse("other users can write there: chmod go-w " + shell_word(directory.string()));
  }
}

/// Calls make_own_directory for `root`, for all directories between `root` and `directory`, and for `directory`. `root`
/// itself may not be a link.
void make_own_directories(const fs::path& root, const fs::path& directory) {
  make_own_directory(root);
  fs::path part = root;
  for (const fs::path& name : directory.lexically_relative(root)) {
    if (name != ".") make_own_directory(part /= name);
  }
}

/// True if the copy is a regular file of this user, with the size and modification time of its source.
bool is_there(const Copy& copy) {
  struct stat status {};
  if (::lstat(copy.to.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) return false;
  return stamp_of(copy.to) == stamp_of_source(copy.from);
}

/// True if the positions and checksums of the copy's records equal `known`, the index entry of the source.
bool has_indexed_records(const Copy& copy, const IndexedFile& known) {
  try {
    const IndexedFile found = index_files({copy.to.string()}, [](std::size_t) {}).front();
    return found.offsets == known.offsets && found.checksums == known.checksums;
  } catch (const Error&) {
    return false;
  }
}

/// Copies the bytes and the modification time. Later runs recognise the copy by this time. Returns the number of bytes.
std::uint64_t carry_out(const Copy& copy, const std::function<void()>& heartbeat) {
  const Descriptor source = open_plain_file(copy.from, copy.from);
  const FileStamp before = stamp_of(source, copy.from);
  remove_file(copy.to);  // if `copy.to` is a link, the copy would be written to the link's target
  NewFile file(copy.to);
  std::vector<std::byte> piece(std::size_t{4} << 20);
  std::uint64_t bytes = 0;
  for (std::size_t count = piece.size(); count == piece.size(); bytes += count) {
    if (const int failed = read_all(source.get(), piece, count); failed != 0) {
      fail(ExitCode::io, "{}: {}", copy.from, errno_text(failed));
    }
    file.write(std::span(piece).first(count));
    heartbeat();
  }
  if (bytes != before.bytes || stamp_of(source, copy.from) != before) {
    fail(ExitCode::data, "{}: changed while it was copied", copy.from);
  }
  file.set_time(before.changed_nanoseconds);
  file.finish();
  file.publish();
  return bytes;
}

/// Checks that the disk of this host has space for the copies that do not exist on the host yet. Errors: io.
void check_room(const std::vector<Copy>& copies, const fs::path& directory, const std::string& host) {
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies) {
    const FileStamp source = stamp_of_source(copy.from);
    if (!is_there(copy)) bytes += source.bytes;
  }
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error || bytes <= space.available) return;
  fail(ExitCode::io, "--stage {}: {:.1f} GB must be copied, and {:.1f} GB are free on {}", directory.string(),
       1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(space.available), host);
}

/// True if the last change of the file is at least `age` ago. Uses the change time (ctime), which no program can set.
bool is_older(const fs::path& path, std::chrono::seconds age) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  return std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_ctim.tv_sec) >= age;
}

/// Removes incomplete copies of killed runs. Keeps copies that are younger than `age`, because they may belong to
/// running processes.
void remove_remains(const std::vector<Copy>& copies, std::chrono::seconds age) {
  std::set<fs::path> directories, names;
  for (const Copy& copy : copies) {
    directories.insert(copy.to.parent_path());
    names.insert(copy.to.filename());
  }
  for (const fs::path& directory : directories) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
      const bool is_one = is_temporary_name(entry.path().filename().string(),
                                            [&](std::string_view name) { return names.contains(fs::path(name)); });
      if (is_one && is_older(entry.path(), age)) fs::remove(entry.path(), error);
    }
  }
}

/// Prints a progress line on rank 0 from time to time.
class StagingProgress {
 public:
  StagingProgress(std::size_t round_count, const Mpi& mpi) : round_count_(round_count), mpi_(mpi) {}
  void done(std::size_t rounds) {
    constexpr std::chrono::seconds interval{10};
    if (mpi_.rank() != 0 || rounds == round_count_ || Clock::now() - told_ < interval) return;
    told_ = Clock::now();
    print_text(STDERR_FILENO, fmt::format("staging: {} of the {} files of a rank\n", rounds, round_count_));
  }

 private:
  std::size_t round_count_;
  const Mpi& mpi_;
  Clock::time_point told_ = Clock::now();
};

/// Returns the largest number of files that any rank copies.
std::size_t count_rounds(std::size_t file_count, bool by_file, const std::vector<int>& hosts) {
  std::size_t most = 0;
  for (const int host : std::set<int>(hosts.begin(), hosts.end())) {
    const auto ranks = static_cast<std::size_t>(std::ranges::count(hosts, host));
    most = std::max(most, (files_needed(file_count, by_file, hosts, host).size() + ranks - 1) / ranks);
  }
  return most;
}

}  // namespace

std::vector<std::size_t> files_needed(std::size_t file_count, bool by_file, const std::vector<int>& hosts, int host) {
  std::set<std::size_t> needed;
  const int rank_count = static_cast<int>(hosts.size());
  for (int rank = 0; rank < rank_count; ++rank) {
    if (hosts[rank] != host) continue;
    const FileShare share = by_file ? file_share(file_count, rank, rank_count) : FileShare{0, file_count};
    for (std::size_t i = share.begin; i < share.end; ++i) needed.insert(i);
  }
  return {needed.begin(), needed.end()};
}

std::vector<std::string> stage_files(const std::vector<std::string>& paths, const StagingSettings& settings,
                                     const Mpi& mpi) {
  const Clock::time_point start = Clock::now();
  const fs::path root = fs::path(settings.directory / "").parent_path();  // the path without a trailing slash
  std::vector<std::string> staged = paths;
  std::vector<Copy> copies;  // the copies that this host needs; the list is equal on all ranks of the host
  for (const std::size_t i : files_needed(paths.size(), settings.by_file, mpi.hosts(), mpi.hosts()[mpi.rank()])) {
    const fs::path from = fs::absolute(paths[i]).lexically_normal();
    copies.push_back({paths[i], root / from.relative_path()});
    staged[i] = copies.back().to.string();
  }
  mpi.run_on_all([&] {
    if (mpi.local_rank() != 0) return;
    std::error_code error;
    if (root.has_parent_path()) fs::create_directories(root.parent_path(), error);
    if (error) fail(ExitCode::io, "--stage {}, on {}: {}", root.string(), mpi.host(), error.message());
    make_own_directory(root);
    check_room(copies, root, mpi.host());
    for (const Copy& copy : copies) make_own_directories(root, copy.to.parent_path());
    remove_remains(copies, settings.age_of_remains);
  });
  std::array<std::int64_t, 2> copied{};  // number of copied files, number of copied bytes
  const std::size_t rounds = count_rounds(paths.size(), settings.by_file, mpi.hosts());
  StagingProgress progress(rounds, mpi);
  bool keeps_times = true;
  FileIndex known;
  mpi.run_on_all([&] { known = known_files(paths); });
  // All ranks take part in each round, so that ranks without files to copy also learn of failures.
  for (std::size_t round = 0; round < rounds; ++round) {
    mpi.run_on_all([&] {
      settings.heartbeat();
      const std::size_t own = round * static_cast<std::size_t>(mpi.local_size()) + mpi.local_rank();
      if (own >= copies.size()) return;
      const auto entry = known.find(copies[own].from);
      const bool is_reused = is_there(copies[own]);
      if (is_reused && (entry == known.end() || has_indexed_records(copies[own], entry->second))) return;
      if (is_reused) {
        print_warning(fmt::format("{}: its records are not those of {}: copied again",
                                  printable(copies[own].to.string()), index_file_name));
      }
      copied[1] += static_cast<std::int64_t>(carry_out(copies[own], settings.heartbeat));
      copied[0] += 1;
      keeps_times = keeps_times && is_there(copies[own]);
    });
    progress.done(round + 1);
    if (requested_by_any(mpi, {.stop = stop_signal_caught()}).stop) {
      fail_on_all(mpi, ExitCode::stopped, "stopped while data files were copied: the same command continues");
    }
  }
  mpi.sum(copied);
  if (!keeps_times) {
    print_warning(
        fmt::format("--stage {}: the disk of {} keeps coarser times than the files have: the next run copies "
                    "them again",
                    settings.directory.string(), mpi.host()));
  }
  if (mpi.rank() == 0) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    print_text(
        STDOUT_FILENO,
        fmt::format("staged in {}: {} files copied ({:.2f} GB in {:.1f} s), the others were there\n",
                    printable(settings.directory.string()), copied[0], 1e-9 * static_cast<double>(copied[1]), seconds));
  }
  return staged;
}

}  // namespace carillon
