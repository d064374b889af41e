#include "carillon/run/preflight.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "carillon/checkpoint/directory_lock.h"
#include "carillon/core/error.h"
#include "carillon/core/printable.h"
#include "carillon/report/console.h"
#include "src/data/available_memory.h"
#include "src/run/host_facts.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// ---- the table ------------------------------------------------------------------------------------------------------

/// Texts in columns that are as wide as they must be; the last is not filled up.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string lines;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) lines += fmt::format("{:<{}}  ", row[i], widths[i]);
    lines += row.back() + "\n";
  }
  return lines;
}

/// Rank 0's text to stdout. Collective. Errors: io.
void tell(const std::string& text, const Mpi& mpi) {
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      fail(ExitCode::io, "cannot write to standard output: {}", errno_text(errno));
    }
  });
}

Json facts_of_rank(const PreflightSubject& subject, const CpuShare& cpu, const Mpi& mpi, const Device& device) {
  Json facts{{"host", mpi.host()},
             {"device", device.name()},
             {"instructions", subject.instructions},
             {"threads", cpu.thread_count},
             {"cpus", cpu.cpus}};
  if (mpi.local_rank() == 0) {
    facts["memory"] = available_memory_bytes();
    facts["interfaces"] = network_interfaces();
  }
  return facts;
}

std::string rank_table(const std::vector<Json>& ranks) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "device", "threads", "CPUs"}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Json& facts = ranks[rank];
    const std::string instructions = facts.at("instructions");
    rows.push_back({fmt::format("{:>4}", rank), printable(facts.at("host").get<std::string>()),
                    facts.at("device").get<std::string>() + (instructions.empty() ? "" : ", " + instructions),
                    fmt::format("{:>7}", facts.at("threads").get<int>()),
                    range_text(facts.at("cpus").get<std::vector<int>>())});
  }
  return table(rows);
}

std::string host_table(const std::vector<Json>& ranks) {
  std::vector<std::vector<std::string>> rows{{"host", "ranks", "memory free", "network interfaces"}};
  for (const Json& facts : ranks) {
    if (!facts.contains("memory")) continue;
    const auto is_there = [&](const Json& other) { return other.at("host") == facts.at("host"); };
    rows.push_back({printable(facts.at("host").get<std::string>()),
                    fmt::format("{:>5}", std::ranges::count_if(ranks, is_there)),
                    size_text(facts.at("memory").get<double>()),
                    fmt::format("{}", fmt::join(facts.at("interfaces").get<std::vector<std::string>>(), ", "))});
  }
  return table(rows);
}

/// Ranks of one host that compute on the same CPUs.
void warn_of_shared_cpus(const std::vector<Json>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto mine = ranks[rank].at("cpus").get<std::vector<int>>();
    for (std::size_t other = rank + 1; other < ranks.size(); ++other) {
      if (ranks[other].at("host") != ranks[rank].at("host")) continue;
      const auto theirs = ranks[other].at("cpus").get<std::vector<int>>();
      std::vector<int> both;
      std::ranges::set_intersection(mine, theirs, std::back_inserter(both));
      if (both.empty()) continue;
      print_warning(fmt::format("ranks {} and {} on {} share the CPUs {}: more ranks than cores take turns", rank,
                                other, printable(ranks[rank].at("host").get<std::string>()), range_text(both)));
      return;  // one such line is enough
    }
  }
}

// ---- the train directory --------------------------------------------------------------------------------------------

/// What a second job would meet there: "held", "free", or "none", which is no lock, or "absent".
std::string try_its_lock(const fs::path& directory) {
  // Where locks are emulated by those of parts of files (NFS), an exclusive one takes a file that is open for writing.
  const Descriptor lock(open((directory / ".lock").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!lock) return "absent";
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return "free";
  return errno == EWOULDBLOCK ? "held" : "none";
}

/// A file that was made just now may take its time to be seen on another host.
std::string try_its_lock_for_a_while(const fs::path& directory) {
  std::string seen = try_its_lock(directory);
  for (int i = 0; i < 20 && seen == "absent"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    seen = try_its_lock(directory);
  }
  return seen;
}

/// Rank 0's lock as it and one rank of each other host see it: "locks hold", or what does not. `seen`: by rank.
std::string lock_text(const std::vector<std::string>& seen, const std::vector<std::string>& names) {
  if (seen.front() != "held") return "no locks there: runs know of each other by .heartbeat";
  std::map<std::string, std::vector<std::string>> hosts;
  for (std::size_t rank = 1; rank < seen.size(); ++rank) hosts[seen[rank]].push_back(names[rank]);
  std::string text = "locks hold";
  const auto add = [&](const char* kind, const char* format) {
    if (hosts.contains(kind)) text += fmt::format(fmt::runtime(format), fmt::join(hosts[kind], ", "));
  };
  add("held", ", from {} too");
  add("absent", "; not there on {}");
  add("free", "; but not across hosts: a run on {} would not be refused");
  add("none", "; none on {}");
  return text;
}

/// Removes the directory and those above it as far as they were not there before `first_made`, while they are empty.
void remove_made(fs::path directory, const fs::path& first_made) {
  std::error_code stays;
  for (;; directory = directory.parent_path()) {
    if (!fs::remove(directory, stays) || directory == first_made) return;
  }
}

/// Of the directory and those above it, the topmost that is not there; empty where it is.
fs::path topmost_missing(fs::path directory) {
  fs::path missing;
  std::error_code unknown;
  for (; !directory.empty() && !fs::exists(directory, unknown); directory = directory.parent_path())
    missing = directory;
  return missing;
}

std::string look_at_train_directory(const fs::path& given, const Mpi& mpi) {
  const fs::path directory = fs::path(given / "").parent_path();  // without a slash at its end
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
  std::string seen;
  if (mpi.rank() == 0) seen = try_its_lock(directory);
  if (mpi.local_rank() == 0 && mpi.hosts()[mpi.rank()] != mpi.hosts()[0]) seen = try_its_lock_for_a_while(directory);
  const std::vector<std::string> all_seen = mpi.all_gather(seen), names = mpi.all_gather(printable(mpi.host()));
  if (mpi.rank() != 0) return {};
  std::error_code unknown;
  const fs::space_info space = fs::space(directory, unknown);
  const std::string free = unknown ? "?" : size_text(static_cast<double>(space.available));
  if (!had_lock_file) fs::remove(directory / ".lock", unknown);  // while it is ours
  if (!first_made.empty()) remove_made(directory, first_made);
  return fmt::format("\ntrain directory {}: {} free; {}\n", printable(given.string()), free,
                     lock_text(all_seen, names));
}

// ---- averaging ------------------------------------------------------------------------------------------------------

class Averager {
 public:
  Averager(const PreflightSubject& subject, Device& device, Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        bucket_(std::max<std::size_t>(1, subject.bucket_bytes / sizeof(float))),
        memory_(communicator.allocate(std::max<std::size_t>(1, subject.gradients) * sizeof(float))) {}

  /// Seconds, on this rank, of the means of `count` numbers, in buckets as a step's.
  double average(std::size_t count) {
    // What ranks hold differs, and their means are whole numbers and halves.
    host_.assign(count, static_cast<float>(communicator_.rank() + 1));
    communicator_.acquire(device_.stream());
    device_.upload(host_.data(), memory_.data(), count * sizeof(float));
    const auto start = std::chrono::steady_clock::now();
    const std::span<float> values(static_cast<float*>(memory_.data()), count);
    for (std::size_t begin = 0; begin < count; begin += bucket_) {
      communicator_.start_mean(values.subspan(begin, std::min(bucket_, count - begin)), device_.stream());
    }
    communicator_.finish(device_.stream());
    device_.stream().synchronize();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
  }

  /// The means are sums times 1 / n, rounded once or twice; between hosts perhaps to bfloat16.
  bool is_right() {
    device_.download(memory_.data(), host_.data(), host_.size() * sizeof(float));
    const float mean = static_cast<float>(communicator_.size() + 1) / 2.0f;
    const float most = mean * (communicator_.rounds() ? 0x1p-6f : 0x1p-20f);
    return std::ranges::all_of(host_, [=](float value) { return std::abs(value - mean) <= most; });
  }

 private:
  Device& device_;
  Communicator& communicator_;
  std::size_t bucket_;
  Buffer memory_;
  std::vector<float> host_;
};

/// The median over some rounds of the slowest rank's seconds.
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
  std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
  return seconds[rounds / 2];
}

std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator) {
  if (mpi.size() == 1) return "averaging: one rank has nothing to average\n";
  Averager averager(subject, device, communicator);
  const double latency = measure(averager, 1, mpi), whole = measure(averager, subject.gradients, mpi);
  const double bytes = static_cast<double>(subject.gradients) * sizeof(float);
  std::string text = fmt::format(
      "averaging by {}: 4 bytes in {:.1f} us; the {} of {}'s gradients in {:.2f} ms, {}/s; the means are right\n",
      communicator.name(), latency * 1e6, size_text(bytes), subject.network, whole * 1e3, size_text(bytes / whole));
  if (const char* const interfaces = std::getenv("OMPI_MCA_btl_tcp_if_include")) {
    text += fmt::format("Open MPI was told to send by {}\n", printable(interfaces));
  }
  return text;
}

}  // namespace

void preflight(const PreflightSubject& subject, const TrainOptions& options, const CpuShare& cpu, const Mpi& mpi,
               Device& device, Communicator& communicator) {
  std::vector<Json> ranks;
  for (const std::string& text : mpi.all_gather(facts_of_rank(subject, cpu, mpi, device).dump())) {
    ranks.push_back(Json::parse(text));
  }
  tell(fmt::format("{}\n{}\n{}", subject.version, rank_table(ranks), host_table(ranks)), mpi);
  if (mpi.rank() == 0) warn_of_shared_cpus(ranks);
  const std::string shared = shared_gpus(mpi, device);
  mpi.run_on_all([&] {
    if (shared.empty() || options.share_gpus) return;
    fail(ExitCode::usage, "preflight: {}: start one rank a GPU, or say --share-gpus", shared);
  });
  tell(look_at_train_directory(options.train_dir, mpi), mpi);
  tell(try_averaging(subject, mpi, device, communicator), mpi);
  tell("preflight: ready; data were not looked at\n", mpi);
}

}  // namespace carillon
