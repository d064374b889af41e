// Compares Newton-Schulz with its definition, and tests which variables muon updates.
// tests/options/optimizer_golden_test.cpp compares muon with PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "carillon/core/error.h"
#include "src/optim/newton_schulz.h"
#include "src/optim/update_factors.h"
#include "tests/optim/optimizer_fixture.h"

namespace carillon::testing {
namespace {

double norm_of(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

std::vector<float> orthogonalized(std::vector<float> matrix, const MatrixShape& shape, std::int64_t steps) {
  NewtonSchulz().run(matrix, shape, norm_of(matrix), steps);
  return matrix;
}

/// Returns the product x y, computed in double. x is [rows, inner], y is [inner, columns].
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& y, std::size_t inner) {
  const std::size_t rows = x.size() / inner, columns = y.size() / inner;
  std::vector<double> z(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t j = 0; j < columns; ++j) z[i * columns + j] += x[i * inner + k] * y[k * columns + j];
    }
  }
  return z;
}

std::vector<double> transposed(const std::vector<double>& x, std::size_t columns) {
  const std::size_t rows = x.size() / columns;
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i % columns * rows + i / columns] = x[i];
  return y;
}

/// Computes the iteration by its definition, which does not transpose the matrix.
std::vector<double> by_definition(const std::vector<float>& matrix, const MatrixShape& shape, int steps) {
  std::vector<double> x(matrix.begin(), matrix.end());
  const auto columns = static_cast<std::size_t>(shape.columns), rows = static_cast<std::size_t>(shape.rows);
  for (double& value : x) value /= norm_of(matrix) + 1e-7;
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> a = product(x, transposed(x, columns), columns), aa = product(a, a, rows);
    std::vector<double> factor(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) factor[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const std::vector<double> added = product(factor, x, rows);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + added[i];
  }
  return x;
}

/// `found`: two singular values, relative to the matrix's norm. For each, the first number is the initial value. The
/// next numbers are the values that the polynomial gives after 1, 2 and 3 steps.
TEST(NewtonSchulz, BringsSingularValuesToWhereItsPolynomialDoes) {
  const std::vector<std::vector<float>> found = {{0.01f, 0.03444f, 0.11843f, 0.40006f},
                                                 {0.1f, 0.33970f, 0.99210f, 0.70708f}};
  const float rest = std::sqrt(1.0f - 0.01f - 0.0001f);
  for (std::int64_t steps = 1; steps <= 3; ++steps) {
    for (const float size : {1.0f, 3e-3f}) {
      std::vector<float> matrix(12);  // has the shape [3, 4]
      for (std::size_t i = 0; i < 3; ++i) matrix[5 * i] = size * std::array{0.01f, 0.1f, rest}[i];
      const std::vector<float> result = orthogonalized(matrix, {3, 4}, steps);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_NEAR(result[5 * i], found[i][static_cast<std::size_t>(steps)], 1e-4) << steps;
      }
    }
    const std::vector<float> alone = orthogonalized({5.0f}, {1, 1}, steps);
    EXPECT_NEAR(alone[0], (std::array{0.70100f, 1.11362f, 0.72071f}[static_cast<std::size_t>(steps - 1)]), 1e-5);
  }
}

TEST(NewtonSchulz, EqualsTheDefinitionForAnyShape) {
  for (const MatrixShape& shape :
       {MatrixShape{1, 1}, {1, 70}, {130, 1}, {3, 100}, {100, 3}, {65, 64}, {64, 65}, {90, 70}, {70, 90}}) {
    const std::vector<float> matrix = random_values(static_cast<std::size_t>(shape.rows * shape.columns), 5);
    const std::vector<float> found = orthogonalized(matrix, shape, 5);
    const std::vector<double> expected = by_definition(matrix, shape, 5);
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
  }
}

TEST(NewtonSchulz, EqualsItselfAtEveryThreadCount) {
  for (const MatrixShape& shape : {MatrixShape{300, 130}, {130, 300}, {20, 9}}) {
    const std::vector<float> matrix = random_values(static_cast<std::size_t>(shape.rows * shape.columns), 5);
    std::vector<std::vector<float>> found;
    for (const int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      found.push_back(orthogonalized(matrix, shape, 3));
      EXPECT_TRUE(equal_bits(found.back(), found.front())) << threads;
    }
  }
}

TEST(NewtonSchulz, OfNothingIsNothing) {
  EXPECT_EQ(orthogonalized(std::vector<float>(6), {2, 3}, 5), std::vector<float>(6));
}

class MuonFactors : public ::testing::Test {
 protected:
  std::vector<std::string> orthogonal() const {
    std::vector<std::string> names;
    const std::vector<UpdateFactors> factors = update_factors(settings_, variables_);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      if (factors[i].orthogonal) names.push_back(variables_[i].name);
    }
    return names;
  }
  void expect_refused(const std::string& said) const {
    try {
      update_factors(settings_, variables_);
      ADD_FAILURE() << said << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(said));
    }
  }
  OptimizerSettings settings_{.rule = "muon", .weight_decay = 0.5};
  std::vector<ParameterSpec> variables_ = {{"stem/weights", {3, 3, 3, 8}}, {"stem/beta", {8}},
                                           {"conv/weights", {5, 2, 8, 4}}, {"wide/weights", {4, 16}},
                                           {"tall/weights", {16, 4}},      {"logits/weights", {4, 10}},
                                           {"logits/biases", {10}}};
};

TEST_F(MuonFactors, AreOfMatricesBetweenTheFirstAndTheLast) {
  using ::testing::ElementsAre;
  EXPECT_THAT(orthogonal(), ElementsAre("conv/weights", "wide/weights", "tall/weights"));
  settings_.groups = {{.pattern = "tall/*", .muon = false}, {.pattern = "*/weights", .decay = 0.0, .muon = true}};
  EXPECT_THAT(orthogonal(), ElementsAre("stem/weights", "conv/weights", "wide/weights", "logits/weights"));
  settings_.rule = "adamw";
  EXPECT_THAT(orthogonal(), ElementsAre());
}

TEST_F(MuonFactors, ScaleWhatHasMoreRowsThanColumnsAsPyTorchHasIt) {
  const std::vector<UpdateFactors> factors = update_factors(settings_, variables_);
  EXPECT_FLOAT_EQ(factors[2].scale, std::sqrt(2.5f)) << "height over width";
  EXPECT_FLOAT_EQ(factors[3].scale, 2.0f) << "out over in";
  EXPECT_FLOAT_EQ(factors[4].scale, 1.0f);
  for (const UpdateFactors& of_variable : factors) EXPECT_EQ(of_variable.weight_decay, 0.5f);
}

TEST_F(MuonFactors, HaveNeitherScaleNorDecayWhereTheyAreNormalised) {
  settings_.muon_normalizes = true;
  const std::vector<UpdateFactors> factors = update_factors(settings_, variables_);
  EXPECT_EQ(factors[3].scale, 1.0f);
  EXPECT_EQ(factors[3].weight_decay, 0.0f);
  EXPECT_EQ(factors[0].weight_decay, 0.5f);
}

TEST_F(MuonFactors, RefuseVectorsAndANetworkWithoutHiddenMatrices) {
  settings_.groups = {{.pattern = "*/biases", .muon = true}};
  expect_refused("'*/biases' requests muon for logits/biases, which is not a matrix");
  settings_.groups = {};
  variables_ = {{"a", {2, 3}}, {"b", {3}}, {"c", {3, 2}}};
  expect_refused("--optimizer muon found no hidden matrix");
}

TEST(Muon, EndsAlikeAtEveryThreadCountAndKeepsFrozenMatrices) {
  const std::vector<ParameterSpec> specs = {{"a", {9, 70}}, {"b", {70, 150}}, {"c", {150, 80}}, {"d", {80, 10}}};
  OptimizerSettings settings{.rule = "muon-nesterov", .learning_rate = constant_rate(0.02), .muon_normalizes = true};
  settings.groups = {{.pattern = "c", .frozen_until = 2}};
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    CpuDevice device(threads);
    const ParameterStore parameters(specs, device,
                                    {.gradients = device.allocate(gradient_bytes(ParameterLayout(specs)))},
                                    optimizer_slots(settings));
    StepInputs inputs;
    const auto optimizer = make_optimizer(settings, parameters, device, inputs);
    EXPECT_FALSE(is_elementwise(settings));
    for (int i = 0; i < 4; ++i)
      upload_floats(device, random_values(parameters.layout().count(i), 3), parameters.value(i));
    const std::span<float> frozen = parameters.value(2).floats();
    const std::vector<float> start(frozen.begin(), frozen.end());
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(std::ranges::equal(frozen, start), true) << step;
      for (int i = 0; i < 4; ++i)
        upload_floats(device, random_values(parameters.layout().count(i), 7), parameters.gradient(i));
      inputs.scalars = step_scalars(settings, step);
      optimizer->apply({parameters.step_sums().data(), {}}, device.stream());
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::ranges::equal(parameters.gradient(i).floats(), random_values(parameters.layout().count(i), 7)))
          << "peers may be reading them";
    }
    EXPECT_FALSE(std::ranges::equal(frozen, start));
    const std::vector<float> all = all_of(parameters);
    if (first.empty()) first = all;
    EXPECT_TRUE(equal_bits(all, first)) << threads;
  }
}

}  // namespace
}  // namespace carillon::testing
