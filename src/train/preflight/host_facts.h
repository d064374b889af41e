// Host facts: texts about a host for the tables of preflight.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace carillon {

/// "0-3,8". `numbers`: ascending.
std::string range_text(std::span<const int> numbers);

/// Interfaces that are up and have an IPv4 address, without the loopback: "eth0 10.77.0.1 (10 Gbit/s)", without a speed
/// if the system does not report it; and InfiniBand devices: "mlx5_0 (InfiniBand)".
std::vector<std::string> network_interfaces();

}  // namespace carillon
