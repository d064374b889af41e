#include <gtest/gtest.h>

#include "carillon/app/preset.h"

namespace carillon::testing {
namespace {

TEST(Presets, MnistHasTheReferencesDefaults) {
  const Preset preset = mnist_preset();
  EXPECT_EQ(network_names(preset), (std::vector<std::string>{"mnist", "lenet", "vgg7"}));
  EXPECT_EQ(preset.defaults.batch_size, 100);
  EXPECT_EQ(preset.defaults.max_steps, 1000);
  EXPECT_DOUBLE_EQ(preset.defaults.learning_rate, 0.001);
  EXPECT_DOUBLE_EQ(preset.defaults.learning_rate_decay, 0.99);
  EXPECT_FALSE(preset.defaults.staircase);
  EXPECT_DOUBLE_EQ(preset.defaults.regularization, 0.0001);
  EXPECT_DOUBLE_EQ(preset.defaults.moving_average_decay, 0.99);
  EXPECT_EQ(preset.decay_steps(100, 4), 600);
  EXPECT_EQ(preset.decay_steps(100000, 1), 1);
}

TEST(Presets, Cifar10HasTheTutorialsDefaults) {
  const Preset preset = cifar10_preset();
  EXPECT_EQ(network_names(preset),
            (std::vector<std::string>{"cifar10", "resnet9", "resnet18", "resnet50", "airbench94", "airbench96"}));
  EXPECT_EQ(preset.defaults.batch_size, 128);
  EXPECT_EQ(preset.defaults.max_steps, 1000000);
  EXPECT_DOUBLE_EQ(preset.defaults.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(preset.defaults.learning_rate_decay, 0.1);
  EXPECT_TRUE(preset.defaults.staircase);
  EXPECT_DOUBLE_EQ(preset.defaults.moving_average_decay, 0.9999);
  EXPECT_EQ(preset.defaults.summary_every, 100);
  EXPECT_EQ(preset.decay_steps(128, 1), 136718);
  EXPECT_EQ(preset.decay_steps(128, 4), 34179);
}

TEST(Presets, ListTheirNetworksWithSizeAndWork) {
  const std::string list = network_list(mnist_preset(), {28, 28, 1}, 10);
  EXPECT_NE(list.find("mnist            397510                     397000\n"), std::string::npos) << list;
  EXPECT_NE(list.find("\nlenet "), std::string::npos) << list;
}

}  // namespace
}  // namespace carillon::testing
