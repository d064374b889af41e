#include "carillon/run/preflight.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

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
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    fmt::print("{}{}\n", line, row.back());
  }
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

void print_ranks(const std::vector<Json>& ranks) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "device", "threads", "CPUs"}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Json& facts = ranks[rank];
    const std::string instructions = facts.at("instructions");
    rows.push_back({fmt::format("{:>4}", rank), printable(facts.at("host").get<std::string>()),
                    facts.at("device").get<std::string>() + (instructions.empty() ? "" : ", " + instructions),
                    fmt::format("{:>7}", facts.at("threads").get<int>()),
                    range_text(facts.at("cpus").get<std::vector<int>>())});
  }
  print_table(rows);
}

void print_hosts(const std::vector<Json>& ranks) {
  std::vector<std::vector<std::string>> rows{{"host", "ranks", "memory free", "network interfaces"}};
  for (const Json& facts : ranks) {
    if (!facts.contains("memory")) continue;
    const auto is_there = [&](const Json& other) { return other.at("host") == facts.at("host"); };
    rows.push_back({printable(facts.at("host").get<std::string>()),
                    fmt::format("{:>5}", std::ranges::count_if(ranks, is_there)),
                    size_text(facts.at("memory").get<double>()),
                    fmt::format("{}", fmt::join(facts.at("interfaces").get<std::vector<std::string>>(), ", "))});
  }
  print_table(rows);
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

/// What a second job would meet there.
std::string try_its_lock(const fs::path& directory) {
  const Descriptor lock(open((directory / ".lock").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return "absent";
  return flock(lock.get(), LOCK_EX | LOCK_NB) == 0 ? "free" : "held";
}

/// Rank 0's lock as it and one rank of each other host see it: "locks hold", or what does not.
std::string lock_text(const std::vector<std::string>& seen, const std::vector<std::string>& names) {
  if (seen.front() != "held") return "locks do not hold there: runs know of each other by .heartbeat";
  std::vector<std::string> held, absent, free;
  for (std::size_t rank = 1; rank < seen.size(); ++rank) {
    if (!seen[rank].empty())
      (seen[rank] == "held" ? held : seen[rank] == "free" ? free : absent).push_back(names[rank]);
  }
  std::string text = "locks hold";
  if (!held.empty()) text += fmt::format(", from {} too", fmt::join(held, ", "));
  if (!absent.empty()) text += fmt::format("; {} see another directory, if any", fmt::join(absent, ", "));
  if (!free.empty())
    text += fmt::format("; but {} do not see them: a job there would not be refused", fmt::join(free, ", "));
  return text;
}

void look_at_train_directory(const fs::path& directory, const Mpi& mpi) {
  std::error_code absent;
  const bool was_there = fs::exists(directory, absent);
  std::optional<DirectoryLock> lock;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) lock.emplace(directory, print_warning);
  });
  const bool looks = mpi.rank() == 0 || (mpi.local_rank() == 0 && mpi.hosts()[mpi.rank()] != mpi.hosts()[0]);
  const std::vector<std::string> seen = mpi.all_gather(looks ? try_its_lock(directory) : "");
  const std::vector<std::string> names = mpi.all_gather(printable(mpi.host()));
  if (mpi.rank() != 0) return;
  const fs::space_info space = fs::space(directory, absent);
  fmt::print("\ntrain directory {}: {} free; {}\n", printable(directory.string()),
             absent ? "?" : size_text(static_cast<double>(space.available)), lock_text(seen, names));
  lock.reset();
  if (was_there) return;
  fs::remove(directory / ".lock", absent);
  fs::remove(directory, absent);
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

  bool is_right() {
    device_.download(memory_.data(), host_.data(), host_.size() * sizeof(float));
    const float mean = static_cast<float>(communicator_.size() + 1) / 2.0f;
    return std::ranges::all_of(host_, [mean](float value) { return value == mean; });
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

void try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator) {
  if (mpi.size() == 1) {
    fmt::print("averaging: one rank has nothing to average\n");
    return;
  }
  Averager averager(subject, device, communicator);
  const double latency = measure(averager, 1, mpi), whole = measure(averager, subject.gradients, mpi);
  if (mpi.rank() != 0) return;
  const double bytes = static_cast<double>(subject.gradients) * sizeof(float);
  fmt::print(
      "averaging by {}: 4 bytes in {:.1f} us; the {} of {}'s gradients in {:.2f} ms, {}/s; the means are right\n",
      communicator.name(), latency * 1e6, size_text(bytes), subject.network, whole * 1e3, size_text(bytes / whole));
  if (const char* const interfaces = std::getenv("OMPI_MCA_btl_tcp_if_include")) {
    fmt::print("Open MPI was told to send by {}\n", interfaces);
  }
}

}  // namespace

void preflight(const PreflightSubject& subject, const TrainOptions& options, const CpuShare& cpu, const Mpi& mpi,
               Device& device, Communicator& communicator) {
  std::vector<Json> ranks;
  for (const std::string& text : mpi.all_gather(facts_of_rank(subject, cpu, mpi, device).dump())) {
    ranks.push_back(Json::parse(text));
  }
  const std::string shared = shared_gpus(mpi, device);
  if (mpi.rank() == 0) {
    fmt::print("{}\n", subject.version);
    print_ranks(ranks);
    fmt::print("\n");
    print_hosts(ranks);
    std::fflush(stdout);
    warn_of_shared_cpus(ranks);
  }
  mpi.run_on_all([&] {
    if (shared.empty() || options.share_gpus) return;
    fail(ExitCode::usage, "preflight: {}: start one rank a GPU, or say --share-gpus", shared);
  });
  look_at_train_directory(options.train_dir, mpi);
  try_averaging(subject, mpi, device, communicator);
  if (mpi.rank() == 0) {
    fmt::print("preflight: ready\n");
    if (std::fflush(stdout) != 0) throw SharedError(ExitCode::io, "cannot write to standard output");
  }
}

}  // namespace carillon
