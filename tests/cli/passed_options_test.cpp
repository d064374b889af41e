#include "src/cli/launch/passed_options.h"

#include <gmock/gmock.h>

namespace carillon {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

TEST(HasOption, FindsAnOptionWithOrWithoutAValue) {
  const Words words{"--model", "resnet9", "--image_size=64", "--distort"};
  EXPECT_TRUE(has_option(words, "model"));
  EXPECT_TRUE(has_option(words, "image-size"));
  EXPECT_TRUE(has_option(words, "distort"));
  EXPECT_FALSE(has_option(words, "resnet9"));
}

TEST(Only, KeepsOptionsAndTheirValues) {
  const std::vector<std::string> words{"--model", "resnet9", "--device=cpu", "--freeze", "a", "b", "--threads", "2"};
  EXPECT_THAT(only(words, {"device", "freeze", "isa"}), ElementsAre("--device=cpu", "--freeze", "a", "b"));
}

TEST(Without, RemovesAnOptionAndItsValues) {
  const Words words{"--model", "resnet9", "--freeze", "a", "b", "--max-steps=5", "--seed", "2"};
  EXPECT_THAT(without(words, {"freeze", "max-steps"}), ElementsAre("--model", "resnet9", "--seed", "2"));
}

}  // namespace
}  // namespace carillon
