#include "src/optim/newton_schulz_cuda.h"

#include <algorithm>
#include <numeric>

#include "carillon/core/error.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

std::size_t padded(std::int64_t count) { return aligned_float_count(static_cast<std::size_t>(count)); }

std::size_t square_elements(const MatrixStack& stack) {
  const std::int64_t side = stack.shape.smaller_side();
  return padded(side * side) * stack.matrices.size();
}

/// Returns one stack per shape, in the order in which the shapes first occur.
std::vector<MatrixStack> stacks_of(const std::vector<FlatMatrix>& matrices) {
  std::vector<MatrixStack> stacks;
  for (const FlatMatrix& matrix : matrices) {
    const auto found = std::ranges::find(stacks, matrix.shape, &MatrixStack::shape);
    if (found != stacks.end()) {
      found->matrices.push_back(matrix);
    } else {
      stacks.push_back({matrix.shape, 0, padded(matrix.shape.rows * matrix.shape.columns), {matrix}});
    }
  }
  std::size_t first = 0;
  for (MatrixStack& stack : stacks) {
    stack.first = first;
    first += stack.stride * stack.matrices.size();
  }
  return stacks;
}

std::vector<MatrixChunk> chunks_of(const std::vector<MatrixStack>& stacks) {
  constexpr std::size_t most = NormChunk::max_count;
  std::vector<MatrixChunk> chunks;
  for (const MatrixStack& stack : stacks) {
    const auto elements = static_cast<std::size_t>(stack.shape.rows * stack.shape.columns);
    std::size_t stacked = stack.first;
    for (const FlatMatrix& matrix : stack.matrices) {
      for (std::size_t i = 0; i < stack.stride; i += most) {
        const std::size_t count = std::min(most, stack.stride - i), own = std::min(count, elements - i);
        chunks.push_back({.flat = matrix.first + i,
                          .stacked = stacked + i,
                          .count = static_cast<std::uint32_t>(own),
                          .padded = static_cast<std::uint32_t>(count),
                          .variable = matrix.variable});
      }
      stacked += stack.stride;
    }
  }
  return chunks;
}

Buffer squares_memory(const std::vector<MatrixStack>& stacks, DType type, Device& device) {
  std::size_t most = 0;
  for (const MatrixStack& stack : stacks) most = std::max(most, square_elements(stack));
  return device.allocate(most * size_of(type));
}

}  // namespace

NewtonSchulzCuda::NewtonSchulzCuda(CudaDevice& device, Arithmetic arithmetic, const std::vector<FlatMatrix>& matrices,
                                   std::size_t elements, std::int64_t steps)
    : steps_(steps),
      type_(activation_type(arithmetic)),
      first_(device.allocate(elements * sizeof(float))),
      second_(device.allocate(elements * sizeof(float))) {
  const std::vector<MatrixStack> stacks = stacks_of(matrices);
  const std::vector<MatrixChunk> chunks = chunks_of(stacks);
  check(chunks.empty() || chunks.back().stacked + chunks.back().padded <= elements,
        "the flat array of the matrices is too small");
  gram_ = squares_memory(stacks, type_, device);
  factor_ = squares_memory(stacks, type_, device);
  chunks_ = device.allocate(chunks.size() * sizeof(MatrixChunk));
  device.upload(chunks.data(), chunks_.data(), chunks_.bytes());
  chunk_count_ = static_cast<int>(chunks.size());
  for (const MatrixStack& stack : stacks) iterations_.push_back(make_iteration(device, arithmetic, stack));
}

NewtonSchulzCuda::Iteration NewtonSchulzCuda::make_iteration(CudaDevice& device, Arithmetic arithmetic,
                                                             const MatrixStack& stack) const {
  const std::int64_t rows = stack.shape.rows, columns = stack.shape.columns, side = stack.shape.smaller_side();
  const bool is_tall = rows > columns;
  const std::size_t offset = stack.first * size_of(type_), stride_bytes = stack.stride * size_of(type_);
  const auto address = [&](const Buffer& buffer) { return reinterpret_cast<std::uintptr_t>(buffer.data()); };
  const std::size_t distance =
      std::max(address(first_), address(second_)) - std::min(address(first_), address(second_));
  const Tensor x{static_cast<std::byte*>(first_.data()) + offset, {}, type_};
  const Tensor gram{gram_.data(), {}, type_}, factor{factor_.data(), {}, type_};
  const auto of_x = [&](const RowMajorMatrix& matrix) {
    return MatrixOperand{&x, matrix, static_cast<std::int64_t>(stack.stride), std::gcd(distance, stride_bytes)};
  };
  const auto of_square = [&](const Tensor& tensor) {
    const std::size_t stride = padded(side * side);
    return MatrixOperand{&tensor, {side, side}, static_cast<std::int64_t>(stride), stride * size_of(type_)};
  };
  const auto product = [&](const MatrixOperand& a, const MatrixOperand& b, const MatrixOperand& c,
                           const MatrixFactors& factors) {
    const MatrixBatch batch{.count = static_cast<std::int64_t>(stack.matrices.size())};
    return MatrixProductCuda(device, arithmetic, a, b, c, batch, factors);
  };
  using Form = NewtonSchulzForm;
  const MatrixOperand plain = of_x({rows, columns}), turned = of_x({columns, rows, true});
  return {offset, product(is_tall ? turned : plain, is_tall ? plain : turned, of_square(gram), {}),
          product(of_square(gram), of_square(gram), of_square(factor), {.alpha = Form::c, .beta = Form::b}),
          product(is_tall ? plain : of_square(factor), is_tall ? of_square(factor) : plain, plain,
                  {.alpha = 1.0f, .beta = Form::a}),
          is_tall};
}

void NewtonSchulzCuda::iterate(const Iteration& stack, Stream& stream) const {
  const void *const gram = gram_.data(), *const factor = factor_.data();
  for (std::int64_t step = 0; step < steps_; ++step) {
    const void* const x = static_cast<const std::byte*>(stacked_memory(step).data()) + stack.offset;
    void* const next = static_cast<std::byte*>(stacked_memory(step + 1).data()) + stack.offset;
    stack.make_gram.run(stream, {x, x, gram_.data()});
    stack.make_factor.run(stream, {gram, gram, factor_.data(), gram});
    stack.multiply.run(stream, {stack.is_tall ? x : factor, stack.is_tall ? factor : x, next, x});
  }
}

void NewtonSchulzCuda::enqueue(const float* factors, Stream& stream) const {
  const auto* const chunks = static_cast<const MatrixChunk*>(chunks_.data());
  with_float_type(type_, [&]<typename T>(std::type_identity<T>) {
    launch(StackScaled<T>{chunks, chunk_count_, factors, input(), static_cast<T*>(stacked_memory(0).data())}, stream);
    for (const Iteration& stack : iterations_) iterate(stack, stream);
    launch(Unstack<T>{chunks, chunk_count_, static_cast<const T*>(stacked_memory(steps_).data()),
                      static_cast<float*>(result_memory().data())},
           stream);
  });
}

}  // namespace carillon
