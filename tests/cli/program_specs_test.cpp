#include <gtest/gtest.h>

#include "carillon/cli/program_spec.h"

namespace carillon::testing {
namespace {

TEST(ProgramSpecs, MnistHasTheReferencesDefaults) {
  const ProgramSpec program_spec = mnist_program();
  EXPECT_EQ(network_names(program_spec), (std::vector<std::string>{"mnist", "lenet", "vgg7"}));
  EXPECT_EQ(program_spec.defaults.data.batch_size, 100);
  EXPECT_EQ(program_spec.defaults.optimizer.max_steps, 1000);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.schedule.learning_rate, 0.001);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.schedule.learning_rate_decay, 0.99);
  EXPECT_FALSE(program_spec.defaults.optimizer.schedule.staircase);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.regularization, 0.0001);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.update.moving_average_decay, 0.99);
  EXPECT_EQ(program_spec.decay_steps(100, 4), 600);
  EXPECT_EQ(program_spec.decay_steps(100000, 1), 1);
}

TEST(ProgramSpecs, Cifar10HasTheTutorialsDefaults) {
  const ProgramSpec program_spec = cifar10_program();
  EXPECT_EQ(network_names(program_spec), (std::vector<std::string>{"cifar10", "resnet9", "resnet18_cifar", "resnet50",
                                                                   "airbench94", "airbench96", "vit_tiny_patch4_32"}));
  EXPECT_EQ(program_spec.defaults.data.batch_size, 128);
  EXPECT_EQ(program_spec.defaults.optimizer.max_steps, 1000000);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.schedule.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.schedule.learning_rate_decay, 0.1);
  EXPECT_TRUE(program_spec.defaults.optimizer.schedule.staircase);
  EXPECT_DOUBLE_EQ(program_spec.defaults.optimizer.update.moving_average_decay, 0.9999);
  EXPECT_EQ(program_spec.defaults.logging.summary_every, 100);
  EXPECT_EQ(program_spec.decay_steps(128, 1), 136718);
  EXPECT_EQ(program_spec.decay_steps(128, 4), 34179);
}

}  // namespace
}  // namespace carillon::testing
