#include "carillon/core/tensor.h"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "carillon/core/error.h"

namespace carillon {

std::size_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::u8:
      break;
  }
  return 1;
}

std::int64_t Shape::element_count() const {
  return std::accumulate(extents_.begin(), extents_.end(), std::int64_t{1}, std::multiplies<>());
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(extents_, ", ")); }

void refuse_floats() { fail(ExitCode::usage, "an op of this network supports float32 only: use --precision fp32"); }

}  // namespace carillon
