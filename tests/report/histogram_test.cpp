#include "src/report/histogram.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "src/device/cpu_device.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double most = std::numeric_limits<double>::max();

/// Counts of all buckets by binary search, as TensorFlow finds them.
std::vector<double> reference_counts(std::span<const float> values) {
  const auto limits = histogram_limits();
  std::vector<double> counts(limits.size());
  for (const double value : values) ++counts[std::ranges::upper_bound(limits, value) - limits.begin()];
  return counts;
}

/// Undoes the joining of empty buckets.
std::vector<double> all_counts(const Histogram& histogram) {
  const auto limits = histogram_limits();
  std::vector<double> counts(limits.size());
  for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
    counts[std::ranges::find(limits, histogram.limits[i]) - limits.begin()] = histogram.counts[i];
  }
  return counts;
}

TEST(Histogram, LimitsAreTensorFlows) {
  const auto limits = histogram_limits();
  EXPECT_EQ(limits.size(), 1551u);
  EXPECT_EQ(limits.front(), -most);
  EXPECT_EQ(limits.back(), most);
  const auto zero = static_cast<std::size_t>(std::ranges::find(limits, 0.0) - limits.begin());
  EXPECT_EQ(zero, limits.size() / 2);
  EXPECT_EQ(limits[zero + 1], 1e-12);
  EXPECT_EQ(limits[zero - 2], -1e-12 * 1.1);
  EXPECT_TRUE(std::ranges::is_sorted(limits));
}

TEST(Histogram, CountsEveryValueInTheBucketThatABinarySearchFinds) {
  std::vector<float> values = {3.4028235e38f, -3.4028235e38f, 0.0f,    -0.0f, 1e-45f, -1e-45f, 3.4e38f,
                               -3.4e38f,      1e-12f,         -1e-12f, 1e20f, -1e20f, 1,       -1};
  for (const double limit : histogram_limits()) {
    const auto value = static_cast<float>(std::clamp(limit, -3e38, 3e38));
    for (const float target : {-3.3e38f, 3.3e38f}) values.insert(values.end(), {value, std::nextafterf(value, target)});
  }
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> exponent(-100, 100);
  for (int i = 0; i < 100000; ++i) values.push_back((i % 2 ? 1.0f : -1.0f) * std::exp2f(exponent(engine)));
  EXPECT_EQ(all_counts(histogram_of(values)), reference_counts(values));
}

TEST(Histogram, CountsANegativeDenormalBelowZero) {
  const auto histogram = histogram_of(std::vector<float>{-1e-45f, -1e-45f, 0.0f});
  EXPECT_THAT(histogram.limits, ElementsAre(-1e-12, 0, 1e-12, most));
  EXPECT_THAT(histogram.counts, ElementsAre(0, 2, 1, 0));
}

TEST(Histogram, JoinsRunsOfEmptyBuckets) {
  const auto histogram = histogram_of(std::vector<float>{0, 0, 0});
  EXPECT_THAT(histogram.limits, ElementsAre(0, 1e-12, most));
  EXPECT_THAT(histogram.counts, ElementsAre(0, 3, 0));
}

TEST(Histogram, SumsUp) {
  const auto histogram = histogram_of(std::vector<float>{-2, 1, 4});
  EXPECT_EQ(histogram.min, -2);
  EXPECT_EQ(histogram.max, 4);
  EXPECT_EQ(histogram.count, 3);
  EXPECT_EQ(histogram.sum, 3);
  EXPECT_EQ(histogram.sum_squares, 21);
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto histogram = histogram_of(std::vector<float>{infinity, 5, nan, -infinity, -nan});
  EXPECT_EQ(histogram.count, 1);
  EXPECT_EQ(histogram.sum, 5);
  EXPECT_EQ(histogram.min, 5);
}

TEST(Histogram, LeavesOutWhatIsNotFiniteAmongManyValues) {
  std::vector<float> values(5003, 2.0f);
  values[2500] = -std::numeric_limits<float>::infinity();
  values[4999] = std::numeric_limits<float>::quiet_NaN();
  const auto histogram = histogram_of(values);
  EXPECT_EQ(histogram.count, 5001);
  EXPECT_EQ(histogram.sum, 10002);
  EXPECT_EQ(histogram.sum_squares, 20004);
  EXPECT_EQ(histogram.min, 2);
  EXPECT_THAT(histogram.counts, ElementsAre(0, 5001, 0));
}

TEST(Histogram, OfASumCountsTheSums) {
  std::vector<float> values(3001), others(3001), sums(3001);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    values[i] = static_cast<float>(i % 17) - 8.0f;
    others[i] = static_cast<float>(i % 29) * 0.25f;
    sums[i] = values[i] + 0.5f * others[i];
  }
  const Histogram of_sum = histogram_of_sum(values, 0.5f, others), expected = histogram_of(sums);
  EXPECT_EQ(of_sum.counts, expected.counts);
  EXPECT_EQ(of_sum.limits, expected.limits);
  EXPECT_EQ(of_sum.sum, expected.sum);
  EXPECT_EQ(of_sum.sum_squares, expected.sum_squares);
}

TEST(Histogram, OfASumRoundsTheProductOnAnyInstructionSet) {
  constexpr float factor = 1.0f + 0x1p-12f;  // its square is no float
  const std::vector<float> others(100, factor), values(100, -(1.0f + 0x1p-11f));
  const auto histogram = histogram_of_sum(values, factor, others);
  EXPECT_EQ(histogram.min, 0);
  EXPECT_EQ(histogram.max, 0);
}

TEST(Histogram, OfNothingIsEmpty) {
  const auto histogram = histogram_of({});
  EXPECT_EQ(histogram.count, 0);
  EXPECT_THAT(histogram.limits, ElementsAre(most));
  EXPECT_THAT(histogram.counts, ElementsAre(0));
}

class ParameterHistogramsTest : public ::testing::Test {
 protected:
  ParameterHistogramsTest() {
    for (int i = 0; i < static_cast<int>(parameters_.specs().size()); ++i) {
      upload_floats(device_, initial_values(parameters_.specs()[i], 1), parameters_.value(i));
      upload_floats(device_, initial_values(parameters_.specs()[i], 2), parameters_.gradient(i));
    }
  }

  CpuDevice device_{2};
  const BuiltNetwork built_ = build_network(mnist_network(mnist_images({.regularization = 0.5})), {.batch_size = 2});
  const ParameterLayout layout_{built_.graph.parameters()};
  ParameterStore parameters_{
      built_.graph.parameters(), device_, {.gradients = device_.allocate(gradient_bytes(layout_))}};
};

void expect_equal(const Histogram& found, const Histogram& expected) {
  EXPECT_EQ(found.min, expected.min);
  EXPECT_EQ(found.max, expected.max);
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.sum, expected.sum);
  EXPECT_EQ(found.sum_squares, expected.sum_squares);
  EXPECT_EQ(found.limits, expected.limits);
  EXPECT_EQ(found.counts, expected.counts);
}

TEST_F(ParameterHistogramsTest, AreOfEveryVariableAndOfItsGradientWithTheL2Part) {
  const ParameterHistograms found = parameter_histograms(parameters_, device_, {});
  for (int i = 0; i < static_cast<int>(parameters_.specs().size()); ++i) {
    const auto values = parameters_.value(i).floats();
    expect_equal(found.variables.at(i), histogram_of(values));
    expect_equal(found.gradients.at(i),
                 histogram_of_sum(parameters_.gradient(i).floats(), parameters_.specs()[i].l2_factor, values));
  }
}

TEST_F(ParameterHistogramsTest, OfAShareLeaveOutTheRest) {
  EXPECT_THAT(parameter_histograms(parameters_, device_, {.variables = true, .gradients = false}).gradients, IsEmpty());
  EXPECT_THAT(parameter_histograms(parameters_, device_, {.variables = false, .gradients = true}).variables, IsEmpty());
}

TEST_F(ParameterHistogramsTest, ComeOutOfTheirBytesAsTheyWentIn) {
  const std::vector<Histogram> sent = parameter_histograms(parameters_, device_, {}).variables;
  const std::vector<Histogram> received = unpack_histograms(pack(sent));
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) expect_equal(received[i], sent[i]);
  EXPECT_THAT(unpack_histograms(pack({})), IsEmpty());
}

}  // namespace
}  // namespace carillon::testing
