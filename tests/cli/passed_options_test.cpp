#include "src/cli/launch/passed_options.h"

#include <gmock/gmock.h>

namespace carillon {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

SplitWords split(const Words& words) { return split_words(words, {"minutes", "train-dir"}, {"fresh"}); }

TEST(SplitWords, OwnOptionsKeepTheirValues) {
  const SplitWords parts = split({"pictures", "--minutes", "5", "--train-dir=runs/a", "--fresh"});
  EXPECT_THAT(parts.own, ElementsAre("carillon", "pictures", "--minutes", "5", "--train-dir=runs/a", "--fresh"));
  EXPECT_THAT(parts.passed, testing::IsEmpty());
}

TEST(SplitWords, OtherOptionsArePassedOnWithAllTheirWords) {
  const SplitWords parts = split({"pictures", "--freeze", "stem/*", "stage1/*", "--minutes", "5", "--mirror=false"});
  EXPECT_THAT(parts.own, ElementsAre("carillon", "pictures", "--minutes", "5"));
  EXPECT_THAT(parts.passed, ElementsAre("--freeze", "stem/*", "stage1/*", "--mirror=false"));
}

TEST(SplitWords, UnderscoresInNamesEqualDashes) {
  EXPECT_THAT(split({"pictures", "--train_dir", "runs/a"}).own,
              ElementsAre("carillon", "pictures", "--train_dir", "runs/a"));
}

TEST(SplitWords, AFlagTakesNoWord) {
  EXPECT_THAT(split({"--fresh", "pictures"}).own, ElementsAre("carillon", "--fresh", "pictures"));
}

TEST(SplitWords, ANegativeNumberIsAValue) {
  EXPECT_THAT(split({"pictures", "--first-label", "-1"}).passed, ElementsAre("--first-label", "-1"));
}

TEST(ValueOf, FindsBothForms) {
  const Words words{"--model", "resnet9", "--image-size=64", "--distort"};
  EXPECT_EQ(value_of(words, "model"), "resnet9");
  EXPECT_EQ(value_of(words, "image-size"), "64");
  EXPECT_EQ(value_of(words, "distort"), std::nullopt);
  EXPECT_EQ(value_of(words, "batch-size"), std::nullopt);
}

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
