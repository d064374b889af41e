#include "src/train/preflight/host_facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

namespace carillon {
namespace {

/// " (10 Gbit/s)"; empty: the driver does not report the speed.
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

}  // namespace carillon
