#include "src/cli/launch/resolve_training.h"

#include <gtest/gtest.h>

namespace carillon::testing {
namespace {

/// Returns the advice how to train faster than with `network` on `files`, with images of size `image_size`.
std::string choice_for(const ProgramSpec& program_spec, const std::string& network, std::int64_t image_size,
                       const std::string& files = "data/train-*", bool evaluates_other_size = false) {
  TrainOptions options = program_spec.defaults;
  options.model = {.name = network, .make = network_named(program_spec, network)};
  options.data.files = {files};
  ImageShape& image = options.data.record_form.schema.image_shape;
  image.height = image.width = image_size;
  options.task.value = task_of(program_spec, options.data.record_form.schema);
  return faster_choice(program_spec, options, evaluates_other_size);
}

TEST(FasterChoice, IsASmallNetworkOnSmallPictures) {
  EXPECT_EQ(
      choice_for(image_program(), "resnet50", 224),
      "--model airbench94 --image-size 32 (35 times less work per image), or fewer steps (--epochs, --max-steps)");
  EXPECT_EQ(choice_for(image_program(), "airbench94", 64),
            "--image-size 32 (4 times less work per image), or fewer steps (--epochs, --max-steps)");
  EXPECT_EQ(choice_for(cifar10_program(), "resnet18_cifar", 32),
            "--model airbench94 (5 times less work per image), or fewer steps (--epochs, --max-steps)");
}

/// The advised network may reject the size of the evaluated images, so the advice resets --eval-image-size.
TEST(FasterChoice, ResetsTheSizeOfEvaluatedImages) {
  EXPECT_EQ(
      choice_for(image_program(), "airbench94", 64, "data/train-*", true),
      "--image-size 32 --eval-image-size 0 (4 times less work per image), or fewer steps (--epochs, --max-steps)");
  EXPECT_EQ(choice_for(image_program(), "airbench94", 32, "data/train-*", true), "fewer steps (--epochs, --max-steps)");
}

TEST(FasterChoice, IsOnlyFewerStepsIfTheNetworkIsFast) {
  EXPECT_EQ(choice_for(image_program(), "airbench94", 32), "fewer steps (--epochs, --max-steps)");
  EXPECT_EQ(choice_for(cifar10_program(), "cifar10", 32), "fewer steps (--epochs, --max-steps)");
}

TEST(FasterChoice, IsOnlyFewerStepsIfThePicturesAreTooSmallForTheFastNetwork) {
  EXPECT_EQ(choice_for(image_program(), "resnet9", 8), "fewer steps (--epochs, --max-steps)");
}

TEST(FasterChoice, IsNoneForNoiseAndForProgramsWithoutAFastNetwork) {
  EXPECT_EQ(choice_for(image_program(), "resnet50", 224, "synthetic"), "");
  EXPECT_EQ(choice_for(mnist_program(), "vgg7", 28), "");
}

}  // namespace
}  // namespace carillon::testing
