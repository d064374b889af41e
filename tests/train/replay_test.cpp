#include "src/train/diagnosis/replay.h"

#include <gmock/gmock.h>

#include <limits>

#include "src/device/cpu_device.h"
#include "tests/support/networks.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float huge = std::numeric_limits<float>::max();

/// Has a network with its initial variables, and a batch of black images. The tests change some variables and images.
class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest(const Network& network, std::int64_t batch_size)
      : network_(network), settings_{.batch_size = batch_size}, pixels_(batch_size * network.image.bytes()) {
    const std::vector<ParameterSpec>& specs = parameters_.specs();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      upload_floats(device_, initial_values(specs[i], 1), parameters_.value(static_cast<int>(i)));
    }
    for (std::int64_t i = 0; i < batch_size; ++i) images_.push_back(&pixel(i, 0));
    labels_.assign(static_cast<std::size_t>(batch_size), 3);
  }
  explicit ReplayTest(std::int64_t batch_size = 4) : ReplayTest(mnist_network(mnist_images()), batch_size) {}

  std::uint8_t& pixel(std::int64_t sample, std::size_t number) {
    return pixels_.at(static_cast<std::size_t>(sample) * network_.image.bytes() + number);
  }
  std::span<float> variable(const std::string& name) const {
    const std::vector<ParameterSpec>& specs = parameters_.specs();
    const auto found = std::ranges::find(specs, name, &ParameterSpec::name);
    return parameters_.value(static_cast<int>(found - specs.begin())).floats();
  }
  Batch batch() const { return {.images = images_, .targets = std::as_bytes(std::span(labels_)), .first_position = 7}; }
  Replay replay() { return {network_, ten_classes(), settings_, parameters_, buffers_, device_}; }

  CpuDevice device_{2};
  const Network network_;
  const BuildSettings settings_;
  const BuiltNetwork trained_ = build_network(network_, ten_classes(), settings_);
  ParameterStore parameters_{trained_.graph.parameters(), device_, {}};
  BufferStore buffers_{trained_.graph.buffers(), device_};
  std::vector<std::uint8_t> pixels_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::int32_t> labels_;
};

TEST_F(ReplayTest, FindsNothingWhereAllIsFinite) {
  pixel(1, 5) = 255;
  Replay replayed = replay();
  EXPECT_FALSE(replayed.forward(batch()));
  EXPECT_FALSE(replayed.backward());
}

TEST_F(ReplayTest, FindsAVariable) {
  variable("layer2/weights")[17] = std::numeric_limits<float>::quiet_NaN();
  variable("layer2/weights")[4999] = std::numeric_limits<float>::infinity();
  const auto found = replay().forward(batch());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "variable layer2/weights before the step, in 2 of 5000 elements");
  EXPECT_THAT(found->samples, IsEmpty());
}

TEST_F(ReplayTest, FindsTheFirstOpAndItsSamples) {
  pixel(1, 5) = pixel(3, 5) = 255;
  variable("layer1/weights")[5 * 500 + 7] = huge;  // weight from pixel 5 to unit 7
  const auto found = replay().forward(batch());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "output of op layer1 (dense)");
  EXPECT_THAT(found->samples, ElementsAre(1, 3));
}

TEST_F(ReplayTest, FindsNoOpBeforeTheFirst) {
  pixel(2, 5) = 255;
  variable("layer1/weights")[5 * 500 + 7] = 1.0f;
  variable("layer2/weights")[7 * 10] = huge;
  const auto found = replay().forward(batch());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "output of op layer2 (dense)");
  EXPECT_THAT(found->samples, ElementsAre(2));
}

class ReplayOfOneTest : public ReplayTest {
 protected:
  ReplayOfOneTest() : ReplayTest(1) {}
};

/// Unit 7 outputs 0, so its weights do not change the logits. These weights are -huge for the label and huge for the
/// other classes, so the gradient of unit 7 overflows.
TEST_F(ReplayOfOneTest, FindsAGradient) {
  const std::span<float> weights = variable("layer2/weights").subspan(7 * 10, 10);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i == 3 ? -huge : huge;
  Replay replayed = replay();
  EXPECT_FALSE(replayed.forward(batch()));
  const auto found = replayed.backward();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "gradient of op layer2 (dense) by its input layer1");
  EXPECT_THAT(found->samples, ElementsAre(0));
}

class ReplayOfTilesTest : public ReplayTest {
 protected:
  ReplayOfTilesTest() : ReplayTest(cifar10_network(cifar10_images({.distort = true, .seed = 3})), 24) {}
};

/// In training, conv2 is in a tiled section that begins with conv1. In a tiled section, the replay cannot observe
/// conv2's output.
TEST_F(ReplayOfTilesTest, FindsAnOpThatIsTiledInTraining) {
  ASSERT_GT(plan_tiling(trained_.graph, 2)[1].tiles, 1);
  variable("conv1/biases")[0] = 1.0f;
  const std::span<float> weights = variable("conv2/weights");
  for (std::size_t i = 11; i < weights.size(); i += 64) weights[i] = huge;  // weights to channel 11
  const auto found = replay().forward(batch());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "output of op conv2 (conv2d)");
  EXPECT_EQ(found->samples.size(), 24u);
}

}  // namespace
}  // namespace carillon::testing
