// Expects that the Newton-Schulz iteration on a GPU equals the iteration on a CPU, and that it uses the run's
// precision.
#include "src/optim/newton_schulz_cuda.h"

#include <cmath>

#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

/// Several matrices of each shape, in mixed order. After some of the matrices, the array has a gap, so that the next
/// matrix is aligned.
const std::vector<MatrixShape> mixed_shapes = {{24, 16}, {5, 7},  {24, 16}, {16, 24}, {9, 9},
                                               {5, 7},   {40, 3}, {24, 16}, {1, 6},   {9, 9}};

double norm_of(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

/// Makes random matrices in one array, with zeros in the gaps between them.
struct FlatMatrices {
  std::vector<FlatMatrix> matrices;
  std::vector<float> values, inverse_norms;

  explicit FlatMatrices(const std::vector<MatrixShape>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      matrices.push_back({values.size(), shapes[i], static_cast<std::uint32_t>(i)});
      const std::vector<float> matrix = random_values(elements(i), 7 + static_cast<std::uint32_t>(i));
      values.insert(values.end(), matrix.begin(), matrix.end());
      values.resize(aligned_float_count(values.size()));
      inverse_norms.push_back(static_cast<float>(1.0 / (norm_of(matrix) + NewtonSchulzForm::epsilon)));
    }
  }
  std::size_t elements(std::size_t i) const {
    return static_cast<std::size_t>(matrices[i].shape.rows * matrices[i].shape.columns);
  }
  std::span<const float> matrix(std::size_t i, const std::vector<float>& array) const {
    return std::span(array).subspan(matrices[i].first, elements(i));
  }

  std::vector<float> on_cpu(std::int64_t steps) const {
    std::vector<float> result = values;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const std::span<float> own = std::span(result).subspan(matrices[i].first, elements(i));
      NewtonSchulz().run(own, matrices[i].shape, norm_of(own), steps);
    }
    return result;
  }
  std::vector<float> on_gpu(Arithmetic arithmetic, std::int64_t steps) const {
    CudaDevice device(0);
    const NewtonSchulzCuda newton_schulz(device, arithmetic, matrices, values.size(), steps);
    Buffer factors = device.allocate(inverse_norms.size() * sizeof(float));
    device.upload(inverse_norms.data(), factors.data(), factors.bytes());
    device.upload(values.data(), newton_schulz.input(), values.size() * sizeof(float));
    newton_schulz.enqueue(static_cast<const float*>(factors.data()), device.stream());
    device.stream().synchronize();
    std::vector<float> result(values.size());
    device.download(newton_schulz.result(), result.data(), result.size() * sizeof(float));
    return result;
  }
};

/// Returns the largest norm of the difference between a matrix of `a` and the same matrix of `b`, relative to the norm
/// of the matrix of `a`.
double largest_distance(const FlatMatrices& flat, const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < flat.matrices.size(); ++i) {
    double squares = 0.0;
    const std::span<const float> one = flat.matrix(i, a), other = flat.matrix(i, b);
    for (std::size_t k = 0; k < one.size(); ++k) squares += std::pow(static_cast<double>(one[k]) - other[k], 2.0);
    largest = std::fmax(largest, std::sqrt(squares) / norm_of(one));
    if (std::isnan(squares)) return squares;
  }
  return largest;
}

using NewtonSchulzOnAGpu = GpuTest;

TEST_F(NewtonSchulzOnAGpu, EqualsTheCpusForEveryMatrixOfABatch) {
  const FlatMatrices flat(mixed_shapes);
  for (const std::int64_t steps : {1, 2, 5}) {
    SCOPED_TRACE(steps);
    EXPECT_LT(largest_distance(flat, flat.on_cpu(steps), flat.on_gpu(Arithmetic::fp32, steps)), 2e-5);
  }
}

TEST_F(NewtonSchulzOnAGpu, KeepsZerosBetweenMatrices) {
  const FlatMatrices flat(mixed_shapes);
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::bf16}) {
    for (const std::int64_t steps : {2, 3}) {
      std::vector<float> result = flat.on_gpu(arithmetic, steps);
      for (std::size_t i = 0; i < flat.matrices.size(); ++i) {
        std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(flat.matrices[i].first), flat.elements(i), 0.0f);
      }
      EXPECT_EQ(result, std::vector<float>(result.size()));
    }
  }
}

TEST_F(NewtonSchulzOnAGpu, HasThePrecisionOfTheRun) {
  const FlatMatrices flat({{200, 64}, {64, 64}, {200, 64}});
  const std::vector<float> expected = flat.on_cpu(3);
  const auto distance_of = [&](Arithmetic arithmetic) {
    return largest_distance(flat, expected, flat.on_gpu(arithmetic, 3));
  };
  const double fp32 = distance_of(Arithmetic::fp32), tf32 = distance_of(Arithmetic::tf32);
  const double bf16 = distance_of(Arithmetic::bf16);
  EXPECT_LT(fp32, 1e-5);
  EXPECT_GT(tf32, 1e-4);
  EXPECT_LT(tf32, 3e-3);
  EXPECT_GT(bf16, 3e-3);
  EXPECT_LT(bf16, 3e-2);
}

TEST_F(NewtonSchulzOnAGpu, HasTheSameBitsInEveryRun) {
  const FlatMatrices flat(mixed_shapes);
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::tf32, Arithmetic::bf16}) {
    const std::vector<float> first = flat.on_gpu(arithmetic, 5);
    set_conditions({.seed = 5, .eagerness = 0.5});
    EXPECT_TRUE(equal_bits(first, flat.on_gpu(arithmetic, 5)));
  }
}

}  // namespace
}  // namespace carillon::testing
