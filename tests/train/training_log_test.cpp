#include "src/train/loop/training_log.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(LabelSmoothing, IsToldWithTheSmallestLoss) {
  EXPECT_EQ(label_smoothing_line(0.2, 10), "label smoothing 0.2: with 10 classes, the training loss stays above 0.86");
  EXPECT_EQ(label_smoothing_line(1.0, 2), "label smoothing 1: with 2 classes, the training loss stays above 0.69");
}

}  // namespace
}  // namespace carillon
