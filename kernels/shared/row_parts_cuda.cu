// RowParts on a GPU.
#include <numeric>

#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/shared/row_parts.h"
#include "kernels/shared/row_parts_kernels.h"

namespace carillon {
namespace {

/// Calls body(type of the elements, elements per pack, k, place of part k) for each part.
template <typename Body>
void for_parts(const RowParts& rows, DType type, const Body& body) {
  std::int64_t common_size = 0;  // greatest common divisor of the sizes; it divides the offsets, too
  for (const RowParts::Part& part : rows.parts) common_size = std::gcd(common_size, part.size);
  with_float_type(type, [&]<typename T>(std::type_identity<T> element) {
    with_pack_size<T>(common_size, [&](auto n) {
      for (std::size_t k = 0; k < rows.parts.size(); ++k) {
        body(element, n, k, PartOfRows{rows.row_size, rows.parts[k].offset, rows.parts[k].size});
      }
    });
  });
}

}  // namespace

void read_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream) {
  for_parts(rows, whole.type,
            [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>, std::size_t k,
                                   const PartOfRows& place) {
              if (!parts[k]) return;
              const ReadPart<T, n> kernel{place, static_cast<const T*>(whole.data), static_cast<T*>(parts[k].data)};
              launch(ForEachElement{kernel, rows.rows * place.size / n}, stream);
            });
}

void write_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream) {
  for_parts(rows, whole.type,
            [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>, std::size_t k,
                                   const PartOfRows& place) {
              const WritePart<T, n> kernel{place, static_cast<const T*>(parts[k].data), static_cast<T*>(whole.data)};
              launch(ForEachElement{kernel, rows.rows * place.size / n}, stream);
            });
}

}  // namespace carillon
