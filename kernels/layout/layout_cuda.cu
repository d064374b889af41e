// transpose, pad, slice, and the copies of concat and split on a GPU.
#include <numeric>

#include "kernels/layout/layout_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

/// Calls body(type of the elements, elements per pack, k, place of part k) for each part.
template <typename Body>
void for_parts(const RowParts& rows, DType type, const Body& body) {
  std::int64_t common_size = 0;  // greatest common divisor of the sizes; it also divides the offsets
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

void transpose_cuda(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& stream) {
  const TransposeAxes places = transpose_axes(x.shape, axes);
  const TransposeAxis& last = places.at[places.count - 1];
  with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<T>(last.stride == 1 ? last.extent : 1, [&]<int n>(std::integral_constant<int, n>) {
      const TransposeForward<T, n> kernel{places, x.shape.elements_per_sample(), static_cast<const T*>(x.data),
                                          static_cast<T*>(y.data)};
      launch(ForEachElement{kernel, y.shape.element_count() / n}, stream);
    });
  });
}

void pad_cuda(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& stream) {
  with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
    const PadForward<T> kernel{axes,
                               x.shape.elements_per_sample(),
                               y.shape.elements_per_sample(),
                               stored_as<T>(value),
                               static_cast<const T*>(x.data),
                               static_cast<T*>(y.data)};
    launch(ForEachElement{kernel, y.shape.element_count()}, stream);
  });
}

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
