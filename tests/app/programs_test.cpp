#include <gtest/gtest.h>

#include "carillon/app/program.h"

namespace carillon::testing {
namespace {

TEST(Programs, MnistHasTheReferencesDefaults) {
  const Program& program = mnist_program();
  EXPECT_EQ(program.models.front(), "mnist");
  EXPECT_EQ(program.defaults.batch_size, 100);
  EXPECT_EQ(program.defaults.max_steps, 1000);
  EXPECT_DOUBLE_EQ(program.defaults.learning_rate, 0.001);
  EXPECT_DOUBLE_EQ(program.defaults.learning_rate_decay, 0.99);
  EXPECT_FALSE(program.defaults.staircase);
  EXPECT_DOUBLE_EQ(program.defaults.regularization, 0.0001);
  EXPECT_DOUBLE_EQ(program.defaults.moving_average_decay, 0.99);
  EXPECT_EQ(program.decay_steps(100, 4), 600);
  EXPECT_EQ(program.decay_steps(100000, 1), 1);
}

TEST(Programs, Cifar10HasTheTutorialsDefaults) {
  const Program& program = cifar10_program();
  EXPECT_EQ(program.defaults.batch_size, 128);
  EXPECT_EQ(program.defaults.max_steps, 1000000);
  EXPECT_DOUBLE_EQ(program.defaults.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(program.defaults.learning_rate_decay, 0.1);
  EXPECT_TRUE(program.defaults.staircase);
  EXPECT_DOUBLE_EQ(program.defaults.moving_average_decay, 0.9999);
  EXPECT_EQ(program.defaults.summary_every, 100);
  EXPECT_EQ(program.decay_steps(128, 1), 136718);
  EXPECT_EQ(program.decay_steps(128, 4), 34179);
}

}  // namespace
}  // namespace carillon::testing
