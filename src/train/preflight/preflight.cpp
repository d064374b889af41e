#include "src/train/preflight/preflight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "carillon/core/error.h"
#include "src/comm/transport/shared_memory.h"
#include "src/core/process.h"
#include "src/core/text.h"
#include "src/report/console.h"
#include "src/train/loop/run_times.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// Checks the lock repeatedly, because on another host a new file may appear with a delay.
LockState look_for_a_while(const fs::path& directory) {
  LockState seen = look_at_lock(directory);
  for (int i = 0; i < 20 && seen == LockState::absent; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    seen = look_at_lock(directory);
  }
  return seen;
}

/// Removes `directory` and then its parents, up to and including `first_made`, the topmost new directory. Stops at the
/// first directory that is not empty.
void remove_made(fs::path directory, const fs::path& first_made) {
  std::error_code stays;
  for (;; directory = directory.parent_path()) {
    if (!fs::remove(directory, stays) || directory == first_made) return;
  }
}

/// Returns the topmost missing directory on the path, or an empty path if the directory exists.
fs::path topmost_missing(fs::path directory) {
  fs::path missing;
  std::error_code unknown;
  for (; !directory.empty() && !fs::exists(directory, unknown); directory = directory.parent_path())
    missing = directory;
  return missing;
}

/// Describes whether rank 0, and the first rank of each other host, see rank 0's lock. Every rank gets the result.
/// Collective.
std::string try_lock_everywhere(const fs::path& directory, const Mpi& mpi) {
  const bool other_host = mpi.hosts()[mpi.rank()] != mpi.hosts()[0];
  std::string own;
  if (mpi.rank() == 0) own = std::to_string(static_cast<int>(look_at_lock(directory)));
  if (mpi.local_rank() == 0 && other_host) own = std::to_string(static_cast<int>(look_for_a_while(directory)));
  const std::vector<std::string> all = mpi.all_gather(own), names = mpi.all_gather(printable(mpi.host()));
  std::vector<LockState> seen;
  std::vector<std::string> hosts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    seen.push_back(static_cast<LockState>(std::stoi(all[rank])));
    hosts.push_back(names[rank]);
  }
  return lock_text(seen, hosts);
}

}  // namespace

std::string lock_text(const std::vector<LockState>& seen, const std::vector<std::string>& hosts) {
  if (seen.front() != LockState::held) return "no locks there: runs know of each other by .heartbeat";
  std::map<LockState, std::vector<std::string>> others;
  for (std::size_t i = 1; i < seen.size(); ++i) others[seen[i]].push_back(hosts[i]);
  const auto names = [&](LockState state) { return fmt::format("{}", fmt::join(others[state], ", ")); };
  std::string text = "locks hold";
  if (others.contains(LockState::held)) text += fmt::format(", from {} too", names(LockState::held));
  if (others.contains(LockState::absent)) {
    text += fmt::format("; the directory does not contain .lock on {}: it is not shared", names(LockState::absent));
  }
  if (others.contains(LockState::free)) {
    text += fmt::format("; but not across hosts: a run on {} would not be refused", names(LockState::free));
  }
  if (others.contains(LockState::none)) text += fmt::format("; none on {}", names(LockState::none));
  return text;
}

namespace {

/// Returns one line on rank 0: the free space of the directory, and whether its locks work on this host and across
/// hosts. Removes everything that it writes. Collective. Errors: usage (the directory is in use), io (the directory
/// cannot be written).
std::string check_train_directory(const fs::path& given, const Mpi& mpi) {
  const fs::path directory = fs::path(given / "").parent_path();  // the path without a trailing slash
  std::optional<DirectoryLock> lock;
  fs::path first_made;
  bool had_lock_file = true;
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    std::error_code unknown;
    first_made = topmost_missing(directory);
    had_lock_file = fs::exists(directory / ".lock", unknown);
    lock.emplace(directory, print_warning);
  });
  const std::string locks = try_lock_everywhere(directory, mpi);
  if (mpi.rank() != 0) return {};
  std::error_code unknown;
  const fs::space_info space = fs::space(directory, unknown);
  const std::string free = unknown ? "?" : size_text(static_cast<double>(space.available));
  if (!had_lock_file) fs::remove(directory / ".lock", unknown);  // removed now, while this rank still has the lock
  if (!first_made.empty()) remove_made(directory, first_made);
  return fmt::format("train directory {}: {} free; {}\n", printable(given.string()), free, locks);
}

/// Returns one line on rank 0, which states the size and place of the shared memory that a training allocates per rank.
/// Maps this memory for a short time. Returns an empty text if the ranks share no memory. Collective. Errors: io (no
/// place has room).
std::string try_shared_memory(std::size_t bytes, const Mpi& mpi) {
  if (bytes == 0) return {};
  const std::vector<std::string> places = mpi.all_gather(try_shared_segment(mpi, bytes)),
                                 hosts = mpi.all_gather(mpi.host());
  std::string text = fmt::format("shared memory: {} per rank, in {}", size_text(static_cast<double>(bytes)), places[0]);
  std::map<std::string, std::string> others;  // by host: the places that differ from the place on rank 0
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (places[rank] != places[0]) others[hosts[rank]] = places[rank];
  }
  for (const auto& [host, place] : others) text += fmt::format("; on {} in {}", printable(host), place);
  return text + "\n";
}

/// Prints rank 0's text on stdout. Collective. Errors: io.
void tell(const std::string& text, const Mpi& mpi) {
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    flush_stdout();
  });
}

}  // namespace

void preflight(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, Device& device,
               Communicator& communicator) {
  const std::vector<RankFacts> ranks = gather_facts(subject.instructions, cpu, mpi, device);
  tell(fmt::format("{}\n{}\n{}\n", subject.version, rank_table(ranks), host_table(ranks)), mpi);
  for (const std::string& warning : {shared_cpus(ranks), small_dev_shm(ranks)}) {
    if (mpi.rank() == 0 && !warning.empty()) print_warning(warning);
  }
  const std::string shared = shared_gpus(mpi, device);
  mpi.run_on_all([&] {
    if (shared.empty() || subject.shares_gpus) return;
    fail(ExitCode::usage, "preflight: {}: start one rank per GPU, or add --share-gpus", shared);
  });
  tell(check_train_directory(subject.train_dir, mpi), mpi);
  tell(try_shared_memory(subject.shared_bytes, mpi), mpi);
  tell(try_averaging(subject, mpi, device, communicator), mpi);
  tell("preflight: ready; data and checkpoints were not checked\n", mpi);
}

namespace {

class Averager {
 public:
  Averager(const PreflightSubject& subject, Device& device, Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        bucket_(std::max<std::size_t>(1, subject.bucket_bytes / sizeof(float))),
        divisor_(static_cast<float>(subject.divisor)),
        memory_(communicator.allocate(std::max<std::size_t>(1, subject.gradients) * sizeof(float))) {
    communicator.prepare(std::min(bucket_, std::max<std::size_t>(1, subject.gradients)));
    device_.check_while_waiting([&communicator] { communicator.check_peers(); });
  }
  ~Averager() { device_.check_while_waiting({}); }
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  /// Averages `count` numbers in buckets, as a step does. Returns the seconds that this takes on this rank.
  double average(std::size_t count) {
    host_.resize(count);
    for (std::size_t i = 0; i < count; ++i) host_[i] = value_at(i);
    communicator_.acquire(device_.stream());
    device_.upload(host_.data(), memory_.data(), count * sizeof(float));
    const auto start = std::chrono::steady_clock::now();
    const std::span<float> values(static_cast<float*>(memory_.data()), count);
    for (std::size_t begin = 0; begin < count; begin += bucket_) {
      communicator_.start_allreduce_mean(values.subspan(begin, std::min(bucket_, count - begin)), device_.stream());
    }
    communicator_.finish(device_.stream());
    device_.stream().synchronize();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
  }

  /// True if all means are right. A mean is the sum times 1 / divisor, rounded once or twice. If the communicator
  /// rounds, the mean is also rounded to bfloat16.
  bool is_right() {
    device_.download(memory_.data(), host_.data(), host_.size() * sizeof(float));
    const auto ranks = static_cast<float>(communicator_.size());
    const float mean = (communicator_.rounds() ? 1.0f : ranks * (ranks + 1.0f) / 2.0f) / divisor_;
    const float most = mean * (communicator_.rounds() ? 0x1p-8f : 0x1p-20f);
    const float factor = communicator_.result_scale();
    return std::ranges::all_of(host_, [=](float value) { return std::abs(value * factor - mean) <= most; });
  }

 private:
  /// The values differ between ranks, and their sums are whole numbers. If the communicator rounds, one rank has 1 and
  /// all other ranks have 0. Then every partial sum is exact, and the check finds a lost value for any number of ranks.
  float value_at(std::size_t i) const {
    if (!communicator_.rounds()) return static_cast<float>(communicator_.rank() + 1);
    return i % static_cast<std::size_t>(communicator_.size()) == static_cast<std::size_t>(communicator_.rank()) ? 1.0f
                                                                                                                : 0.0f;
  }

  Device& device_;
  Communicator& communicator_;
  std::size_t bucket_;
  float divisor_;
  Buffer memory_;
  std::vector<float> host_;
};

/// Returns the seconds of the slowest rank, as a median over some rounds.
double measure(Averager& averager, std::size_t count, const Mpi& mpi) {
  constexpr int warm_up = 3, rounds = 21;
  std::vector<double> seconds;
  for (int round = -warm_up; round < rounds; ++round) {
    mpi.barrier();
    const double own = averager.average(count);
    double slowest = 0.0;
    for (const std::string& text : mpi.all_gather(fmt::format("{}", own))) {
      slowest = std::max(slowest, std::strtod(text.c_str(), nullptr));
    }
    if (round >= 0) seconds.push_back(slowest);
  }
  mpi.run_on_all([&] {
    if (!averager.is_right()) fail(ExitCode::failed, "preflight: averaging gives wrong means");
  });
  return median(std::move(seconds));
}

}  // namespace

std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator) {
  if (mpi.size() == 1) return "averaging: one rank has nothing to average\n";
  Averager averager(subject, device, communicator);
  const double latency = measure(averager, 1, mpi), whole = measure(averager, subject.gradients, mpi);
  const double bytes = static_cast<double>(subject.gradients) * sizeof(float);
  std::string text = fmt::format(
      "averaging by {}: 4 bytes in {:.1f} us; the {} of {}'s gradients in {:.2f} ms, {}/s; the means are right\n",
      communicator.name(), latency * 1e6, size_text(bytes), subject.network, whole * 1e3, size_text(bytes / whole));
  if (const char* const interfaces = std::getenv("OMPI_MCA_btl_tcp_if_include")) {
    text += fmt::format("Open MPI sends through {}\n", printable(interfaces));
  }
  return text;
}

}  // namespace carillon
