// Tests the products of dense that skip zeros in its input. The results are compared with float64, with every
// instruction set that this processor has, and with sizes that leave remainders. The bits of the results must not
// depend on the number of threads. Other tests check when dense uses these products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carillon/device/device.h"
#include "kernels/dense/dense.h"
#include "kernels/dense/sparse_product.h"
#include "tests/support/float_arrays.h"
#include "tests/support/isa_name.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

struct Case {
  std::int64_t rows, steps, columns;
  bool transposed = false;  ///< true: a weights gradient; false: a forward pass, with biases
  bool relu = false;
  double density = 0.2;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.rows << " x " << c.steps << " x " << c.columns << (c.transposed ? " transposed" : "")
       << (c.relu ? " relu" : "") << " density " << c.density;
}

/// A product of the operands a and b. Computes the result by the kernels (`run`) and by the definition.
class Product {
 public:
  explicit Product(const Case& c)
      : case_(c),
        a_(random_values(static_cast<std::size_t>(c.rows * c.steps), 1)),
        b_(random_values(static_cast<std::size_t>(c.steps * c.columns), 2)),
        bias_(random_values(static_cast<std::size_t>(c.columns), 3)) {
    const std::vector<float> draws = random_values(a_.size(), 4, 0.0f, 1.0f);
    for (std::size_t i = 0; i < a_.size(); ++i) {
      if (draws[i] >= c.density) a_[i] = 0.0f;
    }
  }

  float& a(std::int64_t row, std::int64_t step) {
    return a_[static_cast<std::size_t>(case_.transposed ? step * case_.rows + row : row * case_.steps + step)];
  }
  float& b(std::int64_t step, std::int64_t column) {
    return b_[static_cast<std::size_t>(step * case_.columns + column)];
  }

  /// Runs the kernels and returns their result. Expects that the memory before and after the result does not change.
  std::vector<float> run(Isa isa, int threads = 1) {
    constexpr std::size_t guard = 64;
    const auto count = static_cast<std::size_t>(case_.rows * case_.columns);
    std::vector<float> memory = filled<float>(guard + count + guard);
    const std::vector<float> before = memory;
    CpuDevice device(threads, {.isa = isa});
    const SparseProductPass pass(
        device, {.a = {a_.data(), case_.transposed ? Shape{case_.steps, case_.rows} : Shape{case_.rows, case_.steps}},
                 .b = {b_.data(), {case_.steps, case_.columns}},
                 .bias = {case_.transposed ? nullptr : bias_.data(), {case_.columns}},
                 .c = {memory.data() + guard, {case_.rows, case_.columns}},
                 .transposed = case_.transposed,
                 .relu = case_.relu});
    pass.run();
    pass.run();  // runs once more: now the workspace holds values of the first run
    std::vector<float> c(memory.begin() + guard, memory.end() - guard);
    std::fill_n(memory.begin() + guard, count, before.front());
    EXPECT_TRUE(equal_bits(memory, before)) << "written outside of c";
    return c;
  }

  std::vector<double> definition() {
    std::vector<double> c;
    for (std::int64_t row = 0; row < case_.rows; ++row) {
      for (std::int64_t j = 0; j < case_.columns; ++j) c.push_back(case_.transposed ? 0.0 : bias_[j]);
      for (std::int64_t s = 0; s < case_.steps; ++s) {
        for (std::int64_t j = 0; j < case_.columns; ++j) {
          c[static_cast<std::size_t>(row * case_.columns + j)] += static_cast<double>(a(row, s)) * b(s, j);
        }
      }
    }
    if (case_.relu) std::ranges::transform(c, c.begin(), [](double z) { return std::max(z, 0.0); });
    return c;
  }

 private:
  Case case_;
  std::vector<float> a_, b_, bias_;
};

void expect_definition(const Case& c, Isa isa) {
  SCOPED_TRACE(::testing::PrintToString(c));
  Product product(c);
  EXPECT_LT(relative_error(product.run(isa), product.definition()), 1e-6);
}

class SparseDense : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, SparseDense, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return isa_name(isa.param); });

TEST_P(SparseDense, EqualsTheDefinitionAtEveryBatchSize) {
  for (std::int64_t batch = 1; batch <= 130; ++batch) {
    expect_definition({batch, 37, 71, false, true}, GetParam());
    expect_definition({37, batch, 71, true}, GetParam());
  }
}

TEST_P(SparseDense, EqualsTheDefinitionAtEveryNumberOfInputsAndOutputs) {
  for (std::int64_t count = 1; count <= 140; ++count) {
    expect_definition({7, count, 141 - count, false, count % 2 == 0}, GetParam());
    expect_definition({count, 7, 141 - count, true}, GetParam());
  }
}

TEST_P(SparseDense, EqualsTheDefinitionInSeveralPieces) {
  for (const std::int64_t steps : {175, 176, 177, 353, 1023, 1025, 2100}) {
    expect_definition({9, steps, 70, false, true}, GetParam());
    expect_definition({18, steps, 70, true}, GetParam());
  }
}

TEST_P(SparseDense, EqualsTheDefinitionAtEveryDensity) {
  for (const double density : {0.0, 0.01, 0.2, 0.5, 1.0}) {
    expect_definition({100, 784, 100, false, false, density}, GetParam());
    expect_definition({784, 100, 100, true, false, density}, GetParam());
  }
}

TEST_P(SparseDense, ReturnsEqualBitsForAnyNumberOfThreads) {
  for (const Case& c : {Case{100, 784, 500, false, true}, Case{784, 100, 500, true}, Case{3, 9, 5}, Case{9, 3, 5, true},
                        Case{33, 1200, 150}, Case{50, 1200, 150, true}}) {
    Product product(c);
    const std::vector<float> expected = product.run(GetParam());
    for (const int threads : {2, 3, 5, 70}) {
      EXPECT_TRUE(equal_bits(product.run(GetParam(), threads), expected))
          << ::testing::PrintToString(c) << " on " << threads << " threads";
    }
  }
}

/// Some rows, some steps, and some blocks of rows and steps contain only zeros.
TEST_P(SparseDense, SkipsZeros) {
  for (const bool transposed : {false, true}) {
    const Case c{24, 90, 70, transposed, false, 0.5};
    Product product(c);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (std::int64_t step = 0; step < c.steps; ++step) {
        const bool empty_row = row < 8 || row == 13 || row >= 20, empty_step = step < 33 || step == 57 || step == 89;
        if (empty_row || empty_step) product.a(row, step) = step % 2 == 0 ? 0.0f : -0.0f;
      }
    }
    const std::vector<double> expected = product.definition();
    for (const std::int64_t step : {0, 32, 57, 89}) {
      for (std::int64_t j = 0; j < c.columns; ++j) product.b(step, j) = NAN;
    }
    EXPECT_LT(relative_error(product.run(GetParam()), expected), 1e-6) << transposed;
  }
}

TEST_P(SparseDense, MultipliesNonFiniteValues) {
  for (const bool transposed : {false, true}) {
    const Case c{12, 50, 70, transposed, true, 0.0};
    Product product(c);
    product.a(2, 40) = NAN;
    product.a(9, 11) = INFINITY;
    product.b(11, 69) = 1.0f;
    const std::vector<float> y = product.run(GetParam());
    for (std::int64_t j = 0; j < c.columns; ++j) {
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(2 * c.columns + j)])) << j;
      EXPECT_FALSE(std::isnan(y[static_cast<std::size_t>(3 * c.columns + j)])) << j;
    }
    EXPECT_EQ(y[static_cast<std::size_t>(9 * c.columns + 69)], INFINITY);
  }
}

TEST_P(SparseDense, PaysWhereZerosAreManyAndOutputsFillARegister) {
  EXPECT_TRUE(sparse_product_pays(GetParam(), 0.19f, 500));  // the density of MNIST's images
  EXPECT_TRUE(sparse_product_pays(GetParam(), 0.0f, 500));
  EXPECT_FALSE(sparse_product_pays(GetParam(), 0.6f, 500));
  EXPECT_FALSE(sparse_product_pays(GetParam(), 1.0f, 500));
  EXPECT_FALSE(sparse_product_pays(GetParam(), 0.19f, 10));
}

/// A graph with one dense op that has a sparse input, and a device for the graph.
class DenseOfSparse {
 public:
  DenseOfSparse(Isa isa, float density, bool relu) : device_(2, {.isa = isa}), harness_(6, device_) {
    const Value x = harness_.input("x", {6, 40});
    const Value y = dense(harness_.graph(), "layer", x, {.units = 70, .input_density = density});
    harness_.finish(relu_if(relu, harness_.graph(), y));
    std::span<float> values = harness_.values("x");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % 40 < 20 || i % 3 == 0) values[i] = 0.0f;
    }
  }
  OpHarness* operator->() { return &harness_; }

 private:
  CpuDevice device_;
  OpHarness harness_;
};

TEST_P(SparseDense, OpTakesTheFormThatItsInputsDensityAsksFor) {
  for (const bool relu : {false, true}) {
    for (const float density : {0.2f, 1.0f}) {
      DenseOfSparse op(GetParam(), density, relu);
      op->values("layer/weights")[0] = NAN;  // the input that this weight multiplies is always 0
      op->values("layer/biases")[0] = 100.0f;
      EXPECT_EQ(op->forward()[0] > 50.0f, density < 1.0f) << density << " relu " << relu;
    }
  }
}

TEST_P(SparseDense, OpGivesTheSameHoweverSparseItsInputIsSaidToBe) {
  for (const bool relu : {false, true}) {
    DenseOfSparse sparse(GetParam(), 0.2f, relu), dense(GetParam(), 1.0f, relu);
    const auto y = sparse->forward(), expected = dense->forward();
    expect_near({y.begin(), y.end()}, {expected.begin(), expected.end()}, 1e-5);
    sparse->backward();
    dense->backward();
    for (const char* name : {"x", "layer/weights", "layer/biases"}) {
      const auto found = sparse->gradient(name), wanted = dense->gradient(name);
      expect_near({found.begin(), found.end()}, {wanted.begin(), wanted.end()}, 1e-5);
    }
  }
}

TEST_P(SparseDense, OpsGradientsMatchFiniteDifferences) {
  DenseOfSparse(GetParam(), 0.2f, false)->expect_gradients_match_differences(1e-3, 1e-2);
}

}  // namespace
}  // namespace carillon::testing
