#include "src/device/cuda_backend.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(SharedObjects, AreMadeOncePerTypeAndKey) {
  SharedObjects objects;
  int made = 0;
  const auto make = [&] {
    ++made;
    return std::make_unique<int>(made);
  };
  const int* const first = objects.get<int>("a", make);
  EXPECT_EQ(objects.get<int>("a", make), first);
  EXPECT_EQ(*objects.get<int>("b", make), 2);
  EXPECT_EQ(*objects.get<double>("a", [] { return std::make_unique<double>(0.5); }), 0.5);
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(made, 2);
}

TEST(SharedObjects, KeepThatThereIsNone) {
  SharedObjects objects;
  int requests = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(objects.get<int>("a",
                               [&] {
                                 ++requests;
                                 return std::unique_ptr<int>();
                               }),
              nullptr);
  }
  EXPECT_EQ(requests, 1);
}

}  // namespace
}  // namespace carillon
