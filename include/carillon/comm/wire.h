// Wire: the number format of gradients that CPU ranks send between hosts.
#pragma once

namespace carillon {

enum class Wire {
  fp32,
  bf16,  ///< halves the traffic; rounds sums of hosts, and means, to 8 bits. Sums within a host stay float32. GPU
         ///< ranks refuse it
};

}  // namespace carillon
