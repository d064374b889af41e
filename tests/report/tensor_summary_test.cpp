#include "src/report/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// Returns the counts of all buckets. Finds the bucket of each value by binary search, as TensorFlow does.
std::vector<double> reference_counts(std::span<const float> values) {
  const auto limits = histogram_limits();
  std::vector<double> counts(limits.size());
  for (const double value : values) ++counts[std::ranges::upper_bound(limits, value) - limits.begin()];
  return counts;
}

/// Returns the counts of all buckets, including the empty buckets that the histogram has joined.
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
  constexpr float factor = 1.0f + 0x1p-12f;  // float32 cannot represent the square of this number
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

class LayerSummaryTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t batch_size = 2;

  LayerSummaryTest() {
    const std::vector<ParameterSpec>& specs = trained_.graph.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      upload_floats(device_, initial_values(specs[i], 1), parameters_.value(static_cast<int>(i)));
    }
    for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<std::uint8_t>(i * i / 7);
    for (std::int64_t i = 0; i < batch_size; ++i) images_.push_back(pixels_.data() + i * 3072);
    batch_ = {.images = images_, .first_position = 7};
  }

  LayerSummarizer summarizer() {
    return {network_, {.batch_size = batch_size, .purpose = Purpose::summary}, parameters_, buffers_, device_};
  }

  CpuDevice device_{1};
  const Network network_ = cifar10_network(cifar10_images({.distort = true, .seed = 3}));
  const BuiltNetwork trained_ = build_network(network_, {.batch_size = batch_size});
  ParameterStore parameters_{trained_.graph.parameters(), device_, {}};
  BufferStore buffers_{trained_.graph.buffers(), device_};
  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(batch_size * 3072);
  std::vector<const std::uint8_t*> images_;
  Batch batch_;
};

TEST_F(LayerSummaryTest, HoldsEveryLayersActivationsAfterItsRelu) {
  const LayerSummary summary = summarizer().summarize(batch_);
  std::vector<std::string> names;
  for (const auto& layer : summary.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "conv2", "local3", "local4", "softmax_linear"}));
  EXPECT_EQ(summary.layers[0].activations.size(), batch_size * 24u * 24u * 64u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& values = summary.layers[i].activations;
    EXPECT_EQ(*std::min_element(values.begin(), values.end()), 0.0f) << names[i];
    EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.0f) << names[i];
  }
}

TEST_F(LayerSummaryTest, SeesWhatTheTrainedNetworkSees) {
  const LayerSummary summary = summarizer().summarize(batch_);
  StepInputs inputs;
  inputs.batch = batch_;
  Executable executable(trained_.graph, {device_, parameters_, buffers_, inputs}, false, {trained_.output});
  executable.forward(device_.stream());
  EXPECT_EQ(summary.layers.back().activations, download_floats(device_, executable.tensor(trained_.output)));
}

TEST_F(LayerSummaryTest, ShowsTheFirstImagesOfTheBatch) {
  const LayerSummary summary = summarizer().summarize(batch_);
  ASSERT_EQ(summary.images.size(), 2u);
  EXPECT_EQ(summary.images[0].height, 24);
  EXPECT_EQ(summary.images[0].channels, 3);
  EXPECT_NE(summary.images[0].pixels, summary.images[1].pixels);
}

TEST(PictureOf, ScalesLikeTensorFlow) {
  const float positive[] = {0.0f, 1.0f, 2.0f, 4.0f};
  EXPECT_EQ(picture_of(positive, 2, 2, 1).pixels, (std::vector<std::uint8_t>{0, 63, 127, 255}));
  const float mixed[] = {-2.0f, 0.0f, 1.0f, 2.0f};
  EXPECT_EQ(picture_of(mixed, 1, 4, 1).pixels, (std::vector<std::uint8_t>{1, 128, 191, 255}));
  const float nothing[] = {0.0f};
  EXPECT_EQ(picture_of(nothing, 1, 1, 1).pixels, std::vector<std::uint8_t>{0});
}

}  // namespace

}  // namespace carillon::testing
