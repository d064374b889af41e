// check_index_limit: GPU kernels index the elements of a tensor with 32-bit integers.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "carillon/core/error.h"

namespace carillon {

/// Errors: usage (a tensor of `op` has too many elements).
inline void check_index_limit(std::string_view op, std::int64_t elements,
                              std::int64_t most = std::numeric_limits<std::uint32_t>::max()) {
  if (elements <= most) return;
  fail(ExitCode::usage,
       "{} on a GPU: a tensor has {} elements, the limit is {}: reduce --batch-size, --micro-batch, --image-size or "
       "--eval-image-size",
       op, elements, most);
}

}  // namespace carillon
