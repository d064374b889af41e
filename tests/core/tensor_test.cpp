#include "carillon/core/tensor.h"

#include <gtest/gtest.h>

#include <array>

#include "carillon/core/error.h"

namespace carillon {
namespace {

TEST(Tensor, GivesFloatsOnlyOfFloat32) {
  std::array<float, 6> memory{};
  EXPECT_EQ((Tensor{memory.data(), {2, 3}, DType::f32}.floats().size()), 6u);
  try {
    static_cast<void>(Tensor{memory.data(), {2, 3}, DType::bf16}.floats());
    FAIL() << "floats of bf16";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "an op of this network supports float32 only: use --precision fp32");
  }
}

}  // namespace
}  // namespace carillon
