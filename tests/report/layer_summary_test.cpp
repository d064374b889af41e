#include "src/report/layer_summary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/device/cpu_device.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

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
