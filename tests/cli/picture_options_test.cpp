// Expects that the preprocessings of image_train use the ImageNet constants of torchvision, timm and TensorFlow.
#include "src/cli/options/picture_options.h"

#include <gmock/gmock.h>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

PictureDecoding decoding(Preprocessing preprocessing, std::int64_t image_size = 224, double min_crop_area = 0.0) {
  return evaluation_decoding(
      {.image_size = image_size, .preprocessing = preprocessing, .min_crop_area = min_crop_area});
}

/// Source: torchvision, presets.ImageClassification.
TEST(PictureOptions, TorchvisionNormalizesByImagenetsMeansAndDeviations) {
  const PixelNormalization normalization = normalization_of(Preprocessing::torchvision);
  EXPECT_THAT(normalization.mean, ElementsAre(0.485f, 0.456f, 0.406f));
  EXPECT_THAT(normalization.deviation, ElementsAre(0.229f, 0.224f, 0.225f));
}

/// Source: timm, IMAGENET_INCEPTION_MEAN and IMAGENET_INCEPTION_STD.
TEST(PictureOptions, InceptionHasPixelsFromMinus1To1AndTorchvisionsCrops) {
  const PixelNormalization normalization = normalization_of(Preprocessing::inception);
  EXPECT_THAT(normalization.mean, ElementsAre(0.5f, 0.5f, 0.5f));
  EXPECT_THAT(normalization.deviation, ElementsAre(0.5f, 0.5f, 0.5f));
  EXPECT_EQ(decoding(Preprocessing::inception).crop.kind, CropRule::Kind::torchvision);
  EXPECT_EQ(decoding(Preprocessing::inception).resampling, Resampling::antialiased);
}

TEST(PictureOptions, UnitAndBytesOnlyScalePixels) {
  EXPECT_THAT(normalization_of(Preprocessing::unit).mean, ElementsAre(0.0f, 0.0f, 0.0f));
  EXPECT_THAT(normalization_of(Preprocessing::unit).deviation, ElementsAre(1.0f, 1.0f, 1.0f));
  EXPECT_THAT(normalization_of(Preprocessing::bytes).mean, ElementsAre(0.0f, 0.0f, 0.0f));
  EXPECT_THAT(normalization_of(Preprocessing::bytes).deviation,
              ElementsAre(1.0f / 255.0f, 1.0f / 255.0f, 1.0f / 255.0f));
}

/// Source: github.com/openai/CLIP, clip/clip.py.
TEST(PictureOptions, ClipNormalisesByItsMeansAndDeviations) {
  const PixelNormalization normalization = normalization_of(Preprocessing::clip);
  EXPECT_THAT(normalization.mean, ElementsAre(0.48145466f, 0.4578275f, 0.40821073f));
  EXPECT_THAT(normalization.deviation, ElementsAre(0.26862954f, 0.26130258f, 0.27577711f));
  EXPECT_EQ(decoding(Preprocessing::clip).crop.kind, CropRule::Kind::torchvision);
}

/// Source: tensorflow/models, official/vision/image_classification/resnet/imagenet_preprocessing.py. In TensorFlow's
/// code, pixels are between 0 and 255; in Carillon, they are between 0 and 1.
TEST(PictureOptions, TensorflowSubtractsImagenetsMeansFromPixelsOf255) {
  const PixelNormalization normalization = normalization_of(Preprocessing::tensorflow);
  EXPECT_THAT(normalization.mean, ElementsAre(FloatEq(123.68f / 255), FloatEq(116.78f / 255), FloatEq(103.94f / 255)));
  EXPECT_THAT(normalization.deviation, ElementsAre(FloatEq(1.0f / 255), FloatEq(1.0f / 255), FloatEq(1.0f / 255)));
}

/// Source: torchvision, the defaults of RandomResizedCrop.
TEST(PictureOptions, TorchvisionCropsByItsAreasAndRatios) {
  const CropRule rule = decoding(Preprocessing::torchvision).crop;
  EXPECT_EQ(rule.kind, CropRule::Kind::torchvision);
  EXPECT_EQ(rule.min_area, 0.08);
  EXPECT_EQ(rule.max_area, 1.0);
  EXPECT_EQ(rule.min_ratio, 3.0 / 4.0);
  EXPECT_EQ(rule.max_ratio, 4.0 / 3.0);
}

/// Source: tensorflow/models, aspect_ratio_range=[0.75, 1.33], area_range=[0.05, 1.0].
TEST(PictureOptions, TensorflowCropsByItsAreasAndRatios) {
  const CropRule rule = decoding(Preprocessing::tensorflow).crop;
  EXPECT_EQ(rule.kind, CropRule::Kind::tensorflow);
  EXPECT_EQ(rule.min_area, 0.05);
  EXPECT_EQ(rule.max_area, 1.0);
  EXPECT_EQ(rule.min_ratio, 0.75);
  EXPECT_EQ(rule.max_ratio, 1.33);
}

TEST(PictureOptions, LargerEvaluatedImagesShowMoreOfThePictureAtTheSameScale) {
  EXPECT_EQ(evaluation_decoding({.image_size = 64}).shorter, 73);
  EXPECT_EQ(evaluation_decoding({.image_size = 64, .eval_image_size = 72}).shorter, 73);
  EXPECT_EQ(evaluation_decoding({.image_size = 64, .eval_image_size = 96}).shorter, 96);
  EXPECT_EQ(evaluation_shape({.image_size = 64, .eval_image_size = 72}).width, 72);
  EXPECT_EQ(evaluation_shape({.image_size = 64}).width, 64);
}

TEST(PictureOptions, OfCheckpointsHaveTheEvaluatedSize) {
  const auto described = [](const std::string& more) {
    return described_pictures(R"({"image_size": 64, "class count": 2, "first class label": 1,)"
                              R"( "preprocessing": "torchvision")" +
                              more + "}");
  };
  EXPECT_EQ(described("").value().eval_image_size, 0);  // in the form in which versions without eval_image_size stored
                                                        // it
  EXPECT_EQ(described(R"(, "eval_image_size": 72)").value().eval_image_size, 72);
  for (const char* const size : {"7", "-8", "4097", "\"72\""}) {
    EXPECT_THROW(described(R"(, "eval_image_size": )" + std::string(size)), Error) << size;
  }
}

TEST(PictureOptions, RandAugmentIsTwoNumbersOrZero) {
  PictureOptions options;
  OptionSet set;
  declare(set, options);
  EXPECT_EQ(options.rand_augment, RandAugment{});
  const std::array given{"program", "--rand-augment", "3,15"};
  ASSERT_TRUE(set.parse(given.size(), given.data()));
  EXPECT_EQ(options.rand_augment, (RandAugment{.op_count = 3, .magnitude = 15}));
  OptionSet again;
  declare(again, options);
  const std::array off{"program", "--rand-augment=0"};
  ASSERT_TRUE(again.parse(off.size(), off.data()));
  EXPECT_EQ(options.rand_augment, RandAugment{});
}

TEST(PictureOptions, MinCropAreaReplacesTheAreaOfBothRules) {
  for (const Preprocessing preprocessing : {Preprocessing::torchvision, Preprocessing::tensorflow}) {
    EXPECT_EQ(decoding(preprocessing, 224, 0.35).crop.min_area, 0.35);
  }
}

TEST(PictureOptions, AnEvaluationResizesTheShorterSideToEightSeventhsOfTheImage) {
  for (const Preprocessing preprocessing : {Preprocessing::torchvision, Preprocessing::tensorflow}) {
    EXPECT_EQ(decoding(preprocessing, 224).shorter, 256);
    EXPECT_EQ(decoding(preprocessing, 32).shorter, 37);
    EXPECT_EQ(decoding(preprocessing, 36).shorter, 41);
  }
}

TEST(PictureOptions, EachPreprocessingHasItsResampling) {
  EXPECT_EQ(decoding(Preprocessing::torchvision).resampling, Resampling::antialiased);
  EXPECT_EQ(decoding(Preprocessing::tensorflow).resampling, Resampling::top_left_aligned);
}

}  // namespace
}  // namespace carillon
