#include "src/cli/launch/training_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using testing::HasSubstr;

/// Simulates a machine on which airbench94 needs `unit` seconds for a picture of 32 x 32 pixels. The time is
/// proportional to the number of pixels.
std::function<double(const Candidate&)> machine(double unit) {
  return [unit](const Candidate& candidate) {
    const double pixels = static_cast<double>(candidate.image_size * candidate.image_size) / (32.0 * 32.0);
    return unit * pixels * (candidate.network == "airbench94" ? 1.0 : 0.5);
  };
}

TEST(ChooseTraining, ASmallSetGetsALargerNetworkThanALargeSetInTheSameTime) {
  const ChoiceInput small{.pictures = 500, .seconds = 300.0, .seconds_per_picture = machine(0.001), .fixed = {}};
  ChoiceInput large = small;
  large.pictures = 50'000;
  EXPECT_GT(choose_training(small).candidate.image_size, choose_training(large).candidate.image_size);
  EXPECT_EQ(choose_training(large).candidate, training_candidates().front());
}

TEST(ChooseTraining, AFasterMachineNeverGetsASmallerImage) {
  std::int64_t before = 0;
  for (const double unit : {0.01, 0.001, 0.0001, 0.00001}) {
    const auto choice =
        choose_training({.pictures = 5000, .seconds = 300.0, .seconds_per_picture = machine(unit), .fixed = {}});
    EXPECT_GE(choice.candidate.image_size, before);
    before = choice.candidate.image_size;
  }
  EXPECT_EQ(before, training_candidates().back().image_size);
}

TEST(ChooseTraining, SmallPicturesAreNotEnlarged) {
  ChoiceInput input{
      .pictures = 500, .shape = {.side = 32}, .seconds = 3000.0, .seconds_per_picture = machine(0.001), .fixed = {}};
  EXPECT_EQ(choose_training(input).candidate.image_size, 32);
  input.shape.side = 60;
  EXPECT_EQ(choose_training(input).candidate.image_size, 48);
  input.fixed.image_size = 64;
  EXPECT_EQ(choose_training(input).candidate.image_size, 64);
}

TEST(ChooseTraining, ElongatedPicturesAreSquashed) {
  ChoiceInput input{.pictures = 500, .seconds = 300.0, .seconds_per_picture = machine(0.001), .fixed = {}};
  for (const auto& [elongation, fit] : {std::pair(1.0, "crop"), {1.5, "crop"}, {1.78, "squash"}}) {
    input.shape.elongation = elongation;
    EXPECT_THAT(training_settings(choose_training(input), 100), HasSubstr(fmt::format("\nfit = {}\n", fit)));
  }
}

TEST(ChooseTraining, WithoutATimeTheBudgetGrowsWithTheSetWithinItsLimits) {
  const auto seconds = [](std::int64_t pictures) {
    return choose_training({.pictures = pictures, .seconds = {}, .seconds_per_picture = machine(0.001), .fixed = {}})
        .seconds;
  };
  EXPECT_EQ(seconds(100), 180.0);
  EXPECT_GT(seconds(5000), 180.0);
  EXPECT_LT(seconds(5000), seconds(10'000));
  EXPECT_EQ(seconds(1'000'000), 1800.0);
}

TEST(ChooseTraining, AFineTuningKeepsTheNetworkAndChoosesTheSize) {
  ChoiceInput input{.pictures = 1000,
                    .seconds = 300.0,
                    .seconds_per_picture = machine(0.001),
                    .fixed = {.network = "resnet34"},
                    .fine_tunes = true};
  EXPECT_EQ(choose_training(input).candidate, (Candidate{"resnet34", 224}));
  input.pictures = 20'000;
  EXPECT_EQ(choose_training(input).candidate, (Candidate{"resnet34", 64}));
  input.pictures = 1000;
  input.shape.side = 32;
  EXPECT_EQ(choose_training(input).candidate.image_size, 224) << "small pictures are enlarged";
  input.pictures = 50;
  input.seconds = 10.0;  // 5 epochs take 3 s at 224 pixels; 5000 pictures take 5 s at 64 pixels, and 11 s at 96
  input.seconds_per_picture = machine(0.0005);
  EXPECT_EQ(choose_training(input).candidate.image_size, 64) << "few steps would make the network worse";
}

TEST(ChooseTraining, AFineTuningStopsAtASizeThatTheNetworkRefuses) {
  ChoiceInput input{.pictures = 1000, .seconds = 300.0, .fixed = {.network = "airbench94"}, .fine_tunes = true};
  const auto fail_with = [&input](ExitCode code) {
    input.seconds_per_picture = [code](const Candidate& candidate) {
      if (candidate.image_size > 128) fail(code, "too large");
      return 0.001;
    };
  };
  fail_with(ExitCode::usage);
  EXPECT_EQ(choose_training(input).candidate, (Candidate{"airbench94", 128}));
  fail_with(ExitCode::failed);
  EXPECT_THROW(choose_training(input), Error);
}

TEST(ChooseTraining, KeepsTheLastMeasuredSizeIfMeasuringTakesTooLong) {
  int measured = 0;
  ChoiceInput input{.pictures = 1000, .seconds = 300.0, .fixed = {.network = "resnet34"}, .fine_tunes = true};
  input.seconds_per_picture = [&](const Candidate&) {
    ++measured;
    return 0.0001;
  };
  input.may_measure = [&] { return measured < 2; };
  EXPECT_EQ(choose_training(input).candidate, (Candidate{"resnet34", 128}));
}

/// The conversion of the pictures is always complete, so it may take the whole time.
TEST(DivideTime, KeepsTimeForTheLastEvaluationAndAQuarterForTheTraining) {
  EXPECT_EQ(divide_time(180.0, 30.0, 5.0).training, 120.0) << "six views";
  EXPECT_EQ(divide_time(180.0, 30.0, 5.0).evaluation, 30.0);
  EXPECT_EQ(divide_time(180.0, 30.0, 20.0).training, 130.0) << "one view";
  EXPECT_EQ(divide_time(180.0, 30.0, 20.0).evaluation, 20.0);
  EXPECT_EQ(divide_time(180.0, 120.0, 20.0).training, 45.0);
  EXPECT_EQ(divide_time(180.0, 500.0, 20.0).training, 45.0);
  EXPECT_EQ(divide_time(0.6, 500.0, 20.0).training, 1.0);
}

TEST(ViewsWithin, AreSixOrOneIfTheTimeIsOver) {
  EXPECT_EQ(views_within(3.0, 20.0, 180.0), 6);
  EXPECT_EQ(views_within(6.0, 20.0, 180.0), 6) << "it may exceed the time by a tenth";
  EXPECT_EQ(views_within(7.0, 20.0, 180.0), 1);
  EXPECT_EQ(views_within(2.0, -100.0, 180.0), 6);
  EXPECT_EQ(views_within(4.0, -100.0, 180.0), 1);
}

TEST(SecondsInSteps, AreAtLeastTwoFifthsOfTheTrainingOnASlowMachine) {
  EXPECT_EQ(seconds_in_steps(100.0, 10.0, 2.0), 80.0);
  EXPECT_EQ(seconds_in_steps(100.0, 10.0, 200.0), 72.0);
  EXPECT_EQ(seconds_in_steps(100.0, 900.0, 200.0), 40.0);
}

TEST(EvaluationInterval, HasFiveEvaluationsIfTheyTakeAtMostAFifthOfTheTime) {
  EXPECT_EQ(evaluation_interval(1000, 128, 128), 200);
  EXPECT_EQ(evaluation_interval(1, 1280, 128), 20) << "an evaluation takes as long as 5 steps";
  EXPECT_EQ(evaluation_interval(1, 8, 128), 1);
}

TEST(ChooseTraining, TakesWhatTheUserFixed) {
  const auto choice = choose_training({.pictures = 5000,
                                       .seconds = 300.0,
                                       .seconds_per_picture = machine(0.001),
                                       .batch_size = 96,
                                       .fixed = {.network = "resnet9", .image_size = 48}});
  EXPECT_EQ(choice.candidate, (Candidate{"resnet9", 48}));
  EXPECT_EQ(choice.batch_size, 96);
}

TEST(MostSteps, AreWholeEpochs) {
  EXPECT_EQ(most_steps(5000, 100) % 50, 0);
  EXPECT_EQ(most_steps(5001, 100) % 51, 0);
  EXPECT_EQ(most_steps(3, 16), most_steps(16, 16));
}

TEST(RanksFor, GivesEachRankEnoughPicturesOfAStep) {
  EXPECT_EQ(ranks_for(128, 2), 2);
  EXPECT_EQ(ranks_for(128, 64), 8);
  EXPECT_EQ(ranks_for(16, 4), 1);
  EXPECT_EQ(ranks_for(128, 3), 2);  // 3 does not divide 128
}

TEST(BatchFor, HasSixteenStepsInAnEpochIfItCan) {
  EXPECT_EQ(batch_for(100'000), 128);
  EXPECT_EQ(batch_for(128 * 16), 128);
  EXPECT_EQ(batch_for(128 * 16 - 1), 64);
  EXPECT_EQ(batch_for(20), 16);
}

TEST(TrainingSettings, NameNetworkSizeBatchAndLength) {
  const std::string lines =
      training_settings({.candidate = {"airbench94", 32}, .batch_size = 64, .seconds = 60.0}, 100);
  for (const char* const line :
       {"model = airbench94\n", "\nimage-size = 32\n", "global-batch = 64\n", "max-steps = 100\n"}) {
    EXPECT_THAT(lines, HasSubstr(line));
  }
}

TEST(TrainingSettings, HaveAHighRateOfShiftsForNetworksWithoutTrainedScales) {
  const auto settings_of = [](const Candidate& candidate) {
    return training_settings({.candidate = candidate, .batch_size = 128}, 100);
  };
  for (const char* const line : {"\nlearning-rate = 0.6\n", "\ngroup = */beta: rate=64, decay=0.0000208\n"}) {
    EXPECT_THAT(settings_of({"airbench94", 32}), HasSubstr(line));
    EXPECT_THAT(settings_of({"airbench96", 32}), HasSubstr(line));
    EXPECT_THAT(settings_of({"resnet18", 32}), ::testing::Not(HasSubstr(line)));
  }
}

TEST(TrainingSettings, HaveTheSizeOfEvaluatedImages) {
  TrainingChoice choice{.candidate = {"airbench94", 32}, .batch_size = 64};
  EXPECT_THAT(training_settings(choice, 100), HasSubstr("\neval-image-size = 0\n"));
  choice.eval_image_size = 24;
  EXPECT_THAT(training_settings(choice, 100), HasSubstr("\neval-image-size = 24\n"));
}

TEST(EvaluationSize, IsLargerThanTheImageSizeIfTheNetworkPermitsIt) {
  const auto size_is = [](const char* network, std::int64_t image_size, std::int64_t evaluated) {
    EXPECT_EQ(evaluation_size_for({network, image_size}), evaluated) << network << " " << image_size;
  };
  size_is("airbench94", 32, 40);
  size_is("airbench94", 64, 72);
  size_is("airbench94", 120, 0);  // airbench94 would reject 136
  size_is("resnet9", 130, 0);
  size_is("resnet9", 17, 0);  // 16 would be smaller than the training images
  size_is("resnet18", 4096, 0);
  size_is("resnet50", 224, 256);
  size_is("vit_small_patch16_224", 224, 0);
}

TEST(CheckEvaluates, RefusesSizesThatTheNetworkCannotEvaluate) {
  const auto refusal = [](const Candidate& candidate, std::int64_t size) -> std::string {
    try {
      check_evaluates(candidate, size);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
  };
  EXPECT_EQ(refusal({"vit_tiny_patch4_32", 32}, 0), "");
  EXPECT_EQ(refusal({"vit_tiny_patch4_32", 32}, 32), "");
  EXPECT_EQ(refusal({"airbench94", 32}, 24), "");
  EXPECT_THAT(refusal({"vit_tiny_patch4_32", 32}, 4), HasSubstr("--eval-image-size 4: expected 0, or 8 to 4096"));
  EXPECT_THAT(refusal({"vit_tiny_patch4_32", 32}, 64), HasSubstr("--eval-image-size 64: the variables of vit_tiny"));
  EXPECT_THAT(refusal({"airbench94", 32}, 136), HasSubstr("--eval-image-size 136: the network airbench94 requires"));
}

/// The head fit uses the running statistics of batch norms. With the statistics of a batch, its outputs would be wrong.
TEST(TrainingSettings, OfAFineTuningAfterAHeadFitFreezeBatchNorms) {
  TrainingChoice choice{.candidate = {"resnet18", 64}, .batch_size = 128, .fine_tunes = true, .passes = 9.0};
  const std::string fitted = training_settings(choice, 100);
  for (const char* const line : {"fit-head = true\n", "freeze-batch-norm = true\n", "optimizer = adamw\n",
                                 "clip-norm = 1\n", "learning-rate = 0.0004\n"}) {
    EXPECT_THAT(fitted, HasSubstr(line));
  }
  choice.target = TargetKind::numbers;
  const std::string numbers = training_settings(choice, 100);
  EXPECT_THAT(numbers, HasSubstr("optimizer = nesterov\n"));
  for (const char* const absent : {"fit-head", "freeze-batch-norm"}) {
    EXPECT_THAT(numbers, ::testing::Not(HasSubstr(absent)));
  }
}

TEST(TrainingSettings, OfAShortFineTuningHaveALowRate) {
  TrainingChoice choice{.candidate = {"resnet18", 64}, .batch_size = 32, .fine_tunes = true, .passes = 1.0};
  EXPECT_THAT(training_settings(choice, 100), HasSubstr("\nlearning-rate = 5e-05\n"));
  choice.passes.reset();  // with a time budget, image_train adapts the rate
  EXPECT_THAT(training_settings(choice, 100), HasSubstr("\nlearning-rate = 0.0002\n"));
}

TEST(TrainingSettings, OnlyBuiltInTransformersExpectPixelsFromMinusOneToOne) {
  EXPECT_TRUE(expects_inception_pixels({"vit_tiny_patch16_224", 64}));
  EXPECT_FALSE(expects_inception_pixels({"resnet18", 64}));
  EXPECT_FALSE(expects_inception_pixels({"file.onnx", 64}));
}

TEST(TrainingSettings, OfNetworksWithLayerNormsUseAdamw) {
  const TrainingChoice choice{
      .candidate = {"vit_small_patch16_224", 224}, .batch_size = 64, .fine_tunes = true, .passes = 4.0};
  const std::string transformer = training_settings(choice, 100);
  for (const char* const line : {"optimizer = adamw\n", "layer-decay = 0.75\n", "preprocessing = inception\n",
                                 "learning-rate = 0.000125\n", "regularization = 0\n"}) {
    EXPECT_THAT(transformer, HasSubstr(line));
  }
  TrainingChoice of_checkpoint = choice;
  of_checkpoint.preprocessing = "torchvision";
  EXPECT_THAT(training_settings(of_checkpoint, 100), HasSubstr("preprocessing = torchvision\n"));
  const std::string from_scratch = training_settings({.candidate = {"convnext_tiny", 128}, .batch_size = 64}, 100);
  EXPECT_THAT(from_scratch, HasSubstr("optimizer = adamw\n"));
  EXPECT_THAT(from_scratch, ::testing::Not(HasSubstr("layer-decay")));
  EXPECT_THAT(from_scratch, ::testing::Not(HasSubstr("preprocessing")));
}

}  // namespace
}  // namespace carillon
