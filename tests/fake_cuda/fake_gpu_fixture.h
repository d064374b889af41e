// A test that has the fake's GPUs to itself, and leaves nothing on them.
#pragma once

#include <gtest/gtest.h>

#include "support/fake_cuda/fake_cuda.h"

namespace carillon::testing {

class FakeGpuTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::configure({}); }
  void TearDown() override { EXPECT_EQ(fake_cuda::left_over(), ""); }
};

}  // namespace carillon::testing
