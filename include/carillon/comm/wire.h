// Wire: the number format of gradients that are sent between hosts, or between GPUs with NCCL.
#pragma once

namespace carillon {

enum class Wire {
  fp32,
  bf16,  ///< halves the traffic; rounds sums of hosts, and means, to 8 bits. Sums within a host stay float32. With
         ///< NCCL: rounds the gradients of each rank, and all sums
};

}  // namespace carillon
