#include <cstring>
#include <functional>
#include <numeric>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/shared/row_parts.h"

namespace carillon {
namespace {

std::byte* element(const Tensor& tensor, std::int64_t i) {
  return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(i) * size_of(tensor.type);
}

/// Calls body(part k of a row of the whole, the same row of part k, its bytes).
template <typename Body>
void for_parts(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, const Body& body) {
  parallel_items(static_cast<std::size_t>(rows.rows), static_cast<std::size_t>(rows.row_size), elementwise_grain,
                 [&](std::size_t first, std::size_t last) {
                   for (auto row = static_cast<std::int64_t>(first); row < static_cast<std::int64_t>(last); ++row) {
                     for (std::size_t k = 0; k < rows.parts.size(); ++k) {
                       const RowParts::Part& part = rows.parts[k];
                       std::byte* const own = parts[k] ? element(parts[k], row * part.size) : nullptr;
                       body(element(whole, row * rows.row_size + part.offset), own,
                            static_cast<std::size_t>(part.size) * size_of(whole.type));
                     }
                   }
                 });
}

}  // namespace

std::size_t axis_to_part(std::int64_t axis, const Shape& shape, std::string_view verb) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::int64_t found = axis == -1 ? rank - 1 : axis;
  if (found < 1 || found >= rank) fail(ExitCode::failed, "a tensor {} has no axis {} to {}", shape.text(), axis, verb);
  return static_cast<std::size_t>(found);
}

RowParts row_parts(const Shape& whole, std::size_t axis, std::span<const std::int64_t> sizes) {
  const std::vector<std::int64_t>& extents = whole.extents();
  const auto at = extents.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t inner = product(at + 1, extents.end());
  RowParts rows{.rows = product(extents.begin(), at), .row_size = inner * *at, .parts = {}};
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    rows.parts.push_back({.offset = offset, .size = size * inner});
    offset += size * inner;
  }
  return rows;
}

void read_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& /*stream*/) {
  for_parts(rows, whole, parts, [](const std::byte* in_whole, std::byte* part, std::size_t bytes) {
    if (part != nullptr) std::memcpy(part, in_whole, bytes);
  });
}

void write_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& /*stream*/) {
  for_parts(rows, whole, parts, [](std::byte* in_whole, const std::byte* part, std::size_t bytes) {
    if (part != nullptr) {
      std::memcpy(in_whole, part, bytes);
    } else {
      std::memset(in_whole, 0, bytes);
    }
  });
}

}  // namespace carillon
