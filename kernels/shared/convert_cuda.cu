#include "kernels/shared/convert.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

/// Calls body(const From*, To*) with the tensors' types.
template <typename Body>
void with_pointers(const Tensor& from, const Tensor& to, const Body& body) {
  with_float_type(from.type, [&]<typename From>(std::type_identity<From>) {
    with_float_type(to.type, [&]<typename To>(std::type_identity<To>) {
      body(static_cast<const From*>(from.data), static_cast<To*>(to.data));
    });
  });
}

}  // namespace

void convert_cuda(const Tensor& from, const Tensor& to, Stream& stream) {
  const std::int64_t count = from.shape.element_count();
  check(to.shape.element_count() == count, "convert: the element counts differ");
  with_pointers(from, to, [&]<typename From, typename To>(const From* source, To* target) {
    using Larger = std::conditional_t<(sizeof(From) > sizeof(To)), From, To>;
    with_pack_size<Larger>(count, [&]<int n>(std::integral_constant<int, n>) {
      launch(ForEachElement{ConvertPack<From, To, n>{source, target}, count / n}, stream);
    });
  });
}

void transpose_cuda(const Transposition& sides, std::int64_t rows, std::int64_t columns, Stream& stream) {
  const auto& [from, from_padding, to, to_padding] = sides;
  check(from.shape.element_count() == rows * from_padding.extent(columns) &&
            to.shape.element_count() == columns * to_padding.extent(rows),
        "transpose: a tensor does not have rows * columns elements");
  with_pointers(from, to, [&]<typename From, typename To>(const From* source, To* target) {
    launch(Transpose<From, To>{source, target, rows, columns, sides.from_padding, sides.to_padding}, stream);
  });
}

void bias_relu_cuda(const Tensor& bias, bool relu, const Tensor& y, Stream& stream) {
  const std::int64_t columns = bias.shape.element_count(), count = y.shape.element_count();
  check(bias.type == DType::f32 && count % columns == 0,
        "bias_relu requires a float32 bias with one element per column of y");
  with_float_type(y.type, [&]<typename T>(std::type_identity<T>) {
    with_pack_size<float>(columns, [&]<int n>(std::integral_constant<int, n>) {
      check(count / n <= std::int64_t{UINT32_MAX}, "bias_relu: y has too many elements");
      launch(ForEachElement{BiasReluPack<T, n>{.bias = static_cast<const float*>(bias.data),
                                               .y = static_cast<T*>(y.data),
                                               .packs_per_row = static_cast<std::uint32_t>(columns / n),
                                               .relu = relu},
                            count / n},
             stream);
    });
  });
}

}  // namespace carillon
