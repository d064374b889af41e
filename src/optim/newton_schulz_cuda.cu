#include "src/optim/newton_schulz_cuda.h"

#include <algorithm>

#include "kernels/shared/launch.cuh"
#include "src/optim/newton_schulz_kernels.h"

namespace carillon {
namespace {

Buffer room_for(std::span<const MatrixShape> shapes, Device& device, auto&& count) {
  std::int64_t largest = 0;
  for (const MatrixShape& shape : shapes) largest = std::max(largest, count(shape));
  return device.allocate(static_cast<std::size_t>(largest) * sizeof(float));
}

std::int64_t squares_of(const MatrixShape& shape) { return shape.smaller_side() * shape.smaller_side(); }

/// X X^T or X^T X, whichever is smaller.
MatrixProductCuda gram_product(CudaDevice& device, const Tensor& x, const Tensor& gram) {
  const MatrixShape shape = matrix_shape(x.shape);
  const std::int64_t side = shape.smaller_side();
  const MatrixOperand plain{&x, {shape.rows, shape.columns}}, turned{&x, {shape.columns, shape.rows, true}};
  const bool tall = shape.rows > shape.columns;
  return {device, Arithmetic::fp32, tall ? turned : plain, tall ? plain : turned, {&gram, {side, side}}};
}

MatrixProductCuda product_with_factor(CudaDevice& device, const Tensor& x, const Tensor& factor, const Tensor& result) {
  const MatrixShape shape = matrix_shape(x.shape);
  const std::int64_t side = shape.smaller_side();
  const RowMajorMatrix whole{shape.rows, shape.columns};
  const MatrixOperand of_x{&x, whole}, of_factor{&factor, {side, side}};
  const bool tall = shape.rows > shape.columns;
  return {device, Arithmetic::fp32, tall ? of_x : of_factor, tall ? of_factor : of_x, {&result, whole}};
}

MatrixProductCuda square(CudaDevice& device, const Tensor& gram, const Tensor& result) {
  const MatrixOperand side{&gram, {gram.shape[0], gram.shape[1]}};
  return {device, Arithmetic::fp32, side, side, {&result, side.matrix}};
}

Tensor tensor_in(const Buffer& buffer, const Shape& shape) { return {buffer.data(), shape, DType::f32}; }

Shape gram_shape(const Shape& matrix) {
  const std::int64_t side = matrix_shape(matrix).smaller_side();
  return {side, side};
}

}  // namespace

NewtonSchulzMemory::NewtonSchulzMemory(std::span<const MatrixShape> shapes, Device& device)
    : other(room_for(shapes, device, [](const MatrixShape& shape) { return shape.rows * shape.columns; })),
      gram(room_for(shapes, device, squares_of)),
      factor(room_for(shapes, device, squares_of)) {}

NewtonSchulzCuda::NewtonSchulzCuda(CudaDevice& device, const Tensor& matrix, const NewtonSchulzMemory& memory)
    : matrix_(matrix),
      other_(tensor_in(memory.other, matrix.shape)),
      gram_(tensor_in(memory.gram, gram_shape(matrix.shape))),
      factor_(tensor_in(memory.factor, gram_shape(matrix.shape))),
      make_gram_(gram_product(device, matrix_, gram_)),
      make_square_(square(device, gram_, factor_)),
      multiply_(product_with_factor(device, matrix_, factor_, other_)) {}

void NewtonSchulzCuda::enqueue(std::int64_t steps, Stream& stream) const {
  using Form = NewtonSchulzForm;
  const auto add = [&](float of_x, const Tensor& x, float of_y, const Tensor& y) {
    launch(ForEachElement{AddScaled{of_x, of_y, x.floats().data(), y.floats().data()}, y.shape.element_count()},
           stream);
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    make_gram_.run(stream);
    make_square_.run(stream);
    add(Form::b, gram_, Form::c, factor_);
    multiply_.run(stream);
    add(1.0f, other_, Form::a, matrix_);
  }
}

}  // namespace carillon
