// Host facts: what a host tells of itself to who reads preflight's table.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace carillon {

/// "0-3,8": numbers that grow.
std::string range_text(std::span<const int> numbers);

/// A size in the unit that suits it: "1.59 MB", "38.0 GB".
std::string size_text(double bytes);

/// Interfaces with an IPv4 address that are up, but for the loopback: "eth0 10.77.0.1 (10 Gbit/s)", without the speed
/// where the system does not tell it; and InfiniBand's devices, "mlx5_0 (InfiniBand)".
std::vector<std::string> network_interfaces();

}  // namespace carillon
