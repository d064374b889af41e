#include "src/train/preflight/preflight.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/resources.h"
#include "src/core/text.h"

namespace carillon {
namespace {

/// Returns " (10 Gbit/s)", or an empty text if the driver does not report the speed.
std::string speed_text(const std::string& interface) {
  long megabits = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> megabits;
  if (megabits <= 0) return "";
  return megabits >= 1000 ? fmt::format(" ({:g} Gbit/s)", static_cast<double>(megabits) / 1000)
                          : fmt::format(" ({} Mbit/s)", megabits);
}

}  // namespace

std::string range_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i > 2 ? "-" : ",", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::string> network_interfaces() {
  std::vector<std::string> interfaces;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      const bool counts = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (!counts || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      const auto* const address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
      interfaces.push_back(fmt::format("{} {}{}", one->ifa_name, text.data(), speed_text(one->ifa_name)));
    }
  }
  std::error_code absent;
  std::vector<std::string> devices;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", absent)) {
    devices.push_back(fmt::format("{} (InfiniBand)", entry.path().filename().string()));
  }
  std::ranges::sort(devices);
  interfaces.insert(interfaces.end(), devices.begin(), devices.end());
  return interfaces;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, device, instructions, threads, cpus, memory, quota, dev_shm,
                                   interfaces, tells_of_host)

namespace {

/// The room in /dev/shm that the messages between the ranks of a host need. For Open MPI, this is the size of the file
/// that Open MPI makes for each rank. The size for NCCL was not measured: it is the usual size for GPU containers
/// (--shm-size=1g).
constexpr double mpi_bytes_per_rank = 4 << 20, nccl_bytes = 1e9;

std::ptrdiff_t ranks_on(const std::string& host, const std::vector<RankFacts>& ranks) {
  return std::ranges::count(ranks, host, &RankFacts::host);
}

/// Returns the texts in columns of minimal width. The last column is not padded.
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

}  // namespace

std::vector<RankFacts> gather_facts(const std::string& instructions, const CpuShare& cpu, const Mpi& mpi,
                                    const Device& device) {
  RankFacts own{.host = printable(mpi.host()),
                .device = device.name(),
                .instructions = instructions,
                .threads = cpu.thread_count,
                .cpus = cpu.cpus,
                .quota = cpu.quota,
                .tells_of_host = mpi.local_rank() == 0};
  if (own.tells_of_host) {
    own.memory = static_cast<double>(available_memory_bytes());
    std::error_code unknown;
    const std::filesystem::space_info space = std::filesystem::space("/dev/shm", unknown);
    own.dev_shm = unknown ? 0.0 : static_cast<double>(space.available);
    own.interfaces = network_interfaces();
  }
  std::vector<RankFacts> all;
  for (const std::string& text : mpi.all_gather(nlohmann::json(own).dump())) {
    all.push_back(nlohmann::json::parse(text).get<RankFacts>());
  }
  return all;
}

std::string rank_table(const std::vector<RankFacts>& ranks) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "device", "threads", "CPUs"}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankFacts& facts = ranks[rank];
    rows.push_back({fmt::format("{:>4}", rank), facts.host,
                    facts.device + (facts.instructions.empty() ? "" : ", " + facts.instructions),
                    fmt::format("{:>7}", facts.threads), range_text(facts.cpus)});
  }
  return table(rows);
}

std::string host_table(const std::vector<RankFacts>& ranks) {
  std::vector<std::vector<std::string>> rows{
      {"host", "ranks", "memory free", "/dev/shm free", "CPU quota", "network interfaces"}};
  for (const RankFacts& facts : ranks) {
    if (!facts.tells_of_host) continue;
    rows.push_back({facts.host, fmt::format("{:>5}", ranks_on(facts.host, ranks)), size_text(facts.memory),
                    size_text(facts.dev_shm), facts.quota > 0.0 ? fmt::format("{:.3g} cores", facts.quota) : "none",
                    fmt::format("{}", fmt::join(facts.interfaces, ", "))});
  }
  return table(rows);
}

std::string small_dev_shm(const std::vector<RankFacts>& ranks) {
  for (const RankFacts& facts : ranks) {
    const std::ptrdiff_t count = ranks_on(facts.host, ranks);
    if (!facts.tells_of_host || count == 1) continue;
    const bool has_gpu = facts.instructions.empty();
    const double need = has_gpu ? nccl_bytes : mpi_bytes_per_rank * static_cast<double>(count);
    if (facts.dev_shm >= need) continue;
    return fmt::format(
        "/dev/shm on {} has {} free, and the messages of {} between {} ranks need {} there: enlarge it, for example "
        "with docker run --shm-size=1g",
        facts.host, size_text(facts.dev_shm), has_gpu ? "NCCL" : "MPI", count, size_text(need));
  }
  return {};
}

std::string shared_cpus(const std::vector<RankFacts>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t other = rank + 1; other < ranks.size(); ++other) {
      if (ranks[other].host != ranks[rank].host) continue;
      std::vector<int> both;
      std::ranges::set_intersection(ranks[rank].cpus, ranks[other].cpus, std::back_inserter(both));
      if (both.empty()) continue;
      return fmt::format("ranks {} and {} on {} share the CPUs {}: more ranks than cores take turns", rank, other,
                         ranks[rank].host, range_text(both));
    }
  }
  return {};
}

}  // namespace carillon
