// Tests of trainings on a folder of pictures. The tests run image_train as a user does.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <sstream>

#include "carillon/device/device.h"
#include "src/checkpoint/array_files.h"
#include "src/checkpoint/checkpoint.h"
#include "src/report/metrics.h"
#include "tests/cli/image_programs.h"
#include "tests/cli/predictions.h"
#include "tests/support/event_files.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ImageProgramsTest, LearnToTellClassesThatPredictionNames) {
  expect_done(train("learnt", "--max-steps 30"));
  const Outcome evaluated = run("image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("learnt"));
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("precision @ 1 = 1.000 (8/8)"));
  const std::vector<nlohmann::json> predicted = predictions("--checkpoint " + at("learnt") + " " + at("in"));
  EXPECT_EQ(predicted.size(), 40u);
  for (const nlohmann::json& line : predicted) {
    const std::string folder = fs::path(line["file"].get<std::string>()).parent_path().filename();
    const nlohmann::json &first = line["predictions"][0], &second = line["predictions"][1];
    EXPECT_EQ(first["class"], folder);
    EXPECT_EQ(first["index"], folder == "blue" ? 0 : 1);
    EXPECT_EQ(second["class"], folder == "blue" ? "red" : "blue");
    EXPECT_GT(first["probability"], 0.8);
    EXPECT_LT(second["probability"], 0.2);
  }
}

/// 0.6 epochs of 32 records in batches of 8 are 2.4 steps. The program rounds this up to 3 steps.
TEST_F(ImageProgramsTest, TrainForEpochs) {
  const Outcome outcome = run(train("epochs", "--epochs 0.6"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("; --epochs 0.6: 3 steps\n"));
  const std::string options = read_checkpoint(checkpoint_path(at("epochs"), 3)).options_json;
  EXPECT_THAT(options, HasSubstr("\"max_steps\":3,"));
  EXPECT_THAT(options, HasSubstr("\"schedule_steps\":3,"));
  EXPECT_THAT(options, Not(HasSubstr("epochs\":")));
  expect_done(train("steps", "--max-steps 3"));
  expect_same_arrays("epochs", "steps");
  EXPECT_THAT(run(train("epochs", "--epochs 0.6")).output, HasSubstr("nothing to do"));
  expect_failure(train("epochs", "--epochs 1 --max-steps 9"), ExitCode::usage, "contradict each other");
  expect_failure(train("none", "--epochs 0.6 --warmup-steps 3"), ExitCode::usage,
                 "--epochs 0.6 (3 steps): the schedule must end after --warmup-steps 3");
  EXPECT_FALSE(fs::exists(at("none")));
}

/// A checkpoint contains the description of its network, so the program need not know the network's name. For example,
/// earlier versions called resnet18_cifar resnet18.
TEST_F(ImageProgramsTest, UseCheckpointsOfNetworksWithUnknownNames) {
  const std::string small = "--image-size 16 --batch-size 2 --data '" + at("set/train-*") + "' --train-dir ";
  expect_done("image_train --model resnet18_cifar " + small + at("known") + " --max-steps 1");
  const std::string evaluate = "image_eval --data '" + at("set/validation-*") + "' --checkpoint ";
  const std::string expected = run(evaluate + at("known")).output;
  const fs::path path = checkpoint_path(at("known"), 1);
  CheckpointState state = read_checkpoint(path);
  state.model = "foreign";
  write_checkpoint(path, state);
  EXPECT_EQ(run(evaluate + at("known")).output, expected);
  EXPECT_EQ(predictions("--checkpoint " + at("known") + " " + at("in/red/01.jpg")).size(), 1u);
  expect_done("checkpoint_tool export --onnx " + at("foreign.onnx") + " " + at("known"));
  expect_failure("image_train --model resnet18_cifar " + small + at("known") + " --max-steps 2", ExitCode::data,
                 "is of model 'foreign', this run trains 'resnet18_cifar'");
}

/// With 32 records in batches of 16, 3 steps are one and a half epochs.
TEST_F(ImageProgramsTest, GiveTheSameBitsAtAnyNumberOfRanksAndThreadsAndWhenResumed) {
  const auto command = [&](const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --global-batch 16 --micro-batch 4 --shuffle-window 16 --data "
           "'" +
           at("set/train-*") + "' --train-dir " + at(directory) + " " + more;
  };
  expect_done(command("one", "--max-steps 3 --schedule-steps 3 --decode-threads 1"));
  expect_done(command("two", "--max-steps 3 --schedule-steps 3 --decode-threads 3"), two_ranks);
  expect_same_arrays("one", "two");
  expect_done(command("four", "--max-steps 3 --schedule-steps 3"), four_ranks);
  expect_same_arrays("one", "four");
  expect_done(command("again", "--max-steps 1 --schedule-steps 3 --decode-threads 4"));
  expect_done(command("again", "--max-steps 3 --schedule-steps 3"), two_ranks);
  expect_same_arrays("one", "again");
}

TEST_F(ImageProgramsTest, AugmentTheSameImagesAtAnyNumberOfRanksAndThreadsAndWhenResumed) {
  const auto command = [&](const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --global-batch 16 --micro-batch 4 --schedule-steps 3 --data '" +
           at("set/train-*") + "' --train-dir " + at(directory) + " " + more;
  };
  const std::string both = " --rand-augment 2,9 --random-erasing 0.5";
  expect_done(command("plain", "--max-steps 3"));
  expect_done(command("augmented", "--max-steps 3 --decode-threads 1" + both));
  expect_other_variables("plain", "augmented");
  expect_done(command("augmented4", "--max-steps 3" + both), four_ranks);
  expect_same_arrays("augmented", "augmented4");
  expect_done(command("continued", "--max-steps 1 --decode-threads 4" + both));
  expect_done(command("continued", "--max-steps 3" + both), two_ranks);
  expect_same_arrays("augmented", "continued");
  const std::string options = read_checkpoint(checkpoint_path(at("augmented"), 3)).options_json;
  EXPECT_THAT(options, HasSubstr("\"rand_augment\":\"2,9\""));
  expect_failure(command("none", "--rand-augment 2"), ExitCode::usage,
                 "--rand-augment: '2' is not 0, or N,M with N from 1 to 14 and M from 0 to 30");
  expect_failure(command("none", "--rand-augment 2,31"), ExitCode::usage, "--rand-augment: '2,31' is not 0, or N,M");
  expect_failure(command("none", "--random-erasing 1.5"), ExitCode::usage, "--random-erasing: '1.5' is not");
  expect_failure(command("none", "--distort false --random-erasing 0.5"), ExitCode::usage, "--distort");
}

TEST_F(ImageProgramsTest, ChooseThePrecisionThatSuitsTheNetworkAndTheProcessor) {
  const std::string data = " --data '" + at("set/validation-*") + "'";
  expect_done("image_train --model vit_tiny_patch4_32 --image-size 32 --batch-size 16 --max-steps 1 --train-dir " +
              at("auto") + data);
  const bool bf16 = available_isas().back() >= Isa::avx512_bf16;
  const std::string stored = run("checkpoint_tool inspect " + at("auto")).output;
  EXPECT_THAT(stored, HasSubstr(bf16 ? "    precision = bf16\n" : "    precision = fp32\n"));

  const auto predictions = [&](const std::string& precision) {
    expect_done("image_eval --predictions " + at(precision + ".csv") + " --checkpoint " + at("auto") + data +
                " --precision " + precision);
    return read_bytes(at(precision + ".csv"));
  };
  const std::string found = predictions("auto");
  EXPECT_EQ(found, predictions(bf16 ? "bf16" : "fp32"));
  if (bf16) {  // a processor without these instructions emulates bf16, which takes long
    EXPECT_NE(found, predictions("fp32"));
  }
}

TEST_F(ImageProgramsTest, WarnOfMissingPreprocessingIfATransformerStartsFromAWeightFile) {
  const std::string common = "image_train --model vit_tiny_patch4_32 --image-size 8 --batch-size 4 --data '" +
                             at("set/train-*") + "' --train-dir ";
  expect_done(common + at("weights") + " --max-steps 0");
  expect_done("checkpoint_tool export --safetensors " + at("w.safetensors") + " " + at("weights"));
  const auto warns = [&](const std::string& options) {
    const Outcome outcome = run(common + at("tuned") + " --init-from " + at("w.safetensors") + " " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output.find("--preprocessing is missing") != std::string::npos;
  };
  EXPECT_FALSE(warns("--max-steps 0 --preprocessing torchvision"));
  EXPECT_TRUE(warns("--max-steps 1 --schedule-steps 2 --fresh"));
  EXPECT_FALSE(warns("--max-steps 2 --schedule-steps 2")) << "it resumes, and does not read the weights";
}

TEST_F(ImageProgramsTest, StartATransformerFromACheckpointOfAnotherImageSize) {
  const auto command = [&](const char* size, const std::string& options) {
    return std::string("image_train --model vit_tiny_patch4_32 --batch-size 4 --max-steps 0 --image-size ") + size +
           " --data '" + at("set/train-*") + "' --train-dir " + options;
  };
  expect_done(command("8", at("small")));
  const Outcome outcome = run(command("12", at("large") + " --init-from " + at("small")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("initialized from " + at("small/model.ckpt-0.h5") + ": 152 arrays\n"));
  expect_failure(command("12", at("small")), ExitCode::data, "tokens/positions");
}

/// Training, image_eval and carillon_predict must evaluate images of the same size. The size of the training images
/// must not change.
TEST_F(ImageProgramsTest, EvaluateImagesOfAnotherSize) {
  const std::string eval_data = "'" + at("set/validation-*") + "'";
  const Outcome trained = run(train("larger", "--max-steps 4 --eval-image-size 24 --eval-data " + eval_data));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Outcome evaluated = run("image_eval --data " + eval_data + " --checkpoint " + at("larger"));
  const std::size_t at_loss = evaluated.output.find("cross-entropy = ");
  ASSERT_NE(at_loss, std::string::npos) << evaluated.output;
  const std::string loss = evaluated.output.substr(at_loss, evaluated.output.find('\n', at_loss) - at_loss);
  EXPECT_THAT(trained.output, HasSubstr(loss));
  expect_done("carillon_predict --checkpoint " + at("larger") + " --images " + at("larger.npz") + " " + at("in/red"));
  EXPECT_EQ(read_npz(at("larger.npz"), 1 << 22).at(0).shape, (std::vector<std::int64_t>{20, 3, 24, 24}));
  expect_done(train("usual", "--max-steps 4"));
  expect_same_arrays("larger", "usual");
  const Outcome of_usual = run("image_eval --data " + eval_data + " --checkpoint " + at("usual"));
  EXPECT_THAT(of_usual.output, HasSubstr("cross-entropy = "));
  EXPECT_THAT(of_usual.output, Not(HasSubstr(loss)));
  const Outcome changed = run(train("larger", "--max-steps 4 --eval-data " + eval_data));
  EXPECT_EQ(changed.code, 0);
  EXPECT_THAT(changed.output, HasSubstr("best.ckpt.h5: does not say that it was evaluated on these records at this "
                                        "image size; the next evaluation takes its place"));
  const std::string smaller = "--max-steps 4 --test-time-augmentation --eval-image-size 8 --eval-data " + eval_data;
  expect_done(train("smaller", smaller), two_ranks);
  expect_done("checkpoint_tool export --onnx " + at("larger.onnx") + " " + at("larger"));
  EXPECT_THAT(read_bytes(at("larger.onnx")), HasSubstr("\"height\":24"));
  expect_failure(train("refused", "--eval-image-size 136"), ExitCode::usage,
                 "--eval-image-size 136: the network resnet9 requires square images of 8 x 8 to 135 x 135");
  expect_failure(train("refused", "--eval-image-size 7"), ExitCode::usage, "--eval-image-size 7: expected 0, or 8");
  expect_failure("image_train --model resnet18 --image-size 32 --eval-image-size 4096 --data '" + at("set/train-*") +
                     "' --eval-data " + eval_data + " --train-dir " + at("refused"),
                 ExitCode::usage, "--eval-image-size 4096, 48 at a time: needs ");
  expect_failure("image_train --model vit_tiny_patch16_224 --image-size 16 --eval-image-size 32 --data '" +
                     at("set/train-*") + "' --train-dir " + at("refused"),
                 ExitCode::usage,
                 "--eval-image-size 32: the variables of vit_tiny_patch16_224 depend on the image size: omit "
                 "--eval-image-size");
}

TEST_F(ImageProgramsTest, OtherSeedsSeeOtherParts) {
  expect_done(train("start", "--max-steps 0"));
  for (const char* seed : {"1", "2"}) {
    expect_done(train(std::string("seed") + seed, std::string("--fresh --max-steps 2 --shuffle false --seed ") + seed +
                                                      " --init-from " + at("start/model.ckpt-0.h5")));
  }
  expect_other_variables("seed1", "seed2");
}

/// onnxruntime runs the exported model. It must compute the probabilities that carillon_predict prints.
TEST_F(ImageProgramsTest, ExportTheirNetworks) {
  expect_done(train("exported", "--max-steps 2"));
  expect_done("checkpoint_tool export --onnx " + at("model.onnx") + " " + at("exported"));
  const std::string model = testing::read_text(root_ / "model.onnx");
  EXPECT_THAT(model, HasSubstr(R"(["blue","red"])"));
  EXPECT_THAT(model, HasSubstr(R"-("fit":"crop",)-"));
  EXPECT_THAT(model, HasSubstr(R"-("resize":"bilinear, antialiased (Pillow)","shorter_side":18,)-"));
  const std::vector<nlohmann::json> predicted =
      predictions("--checkpoint " + at("exported") + " --images " + at("seen.npz") + " " + at("in/blue/00.jpg") + " " +
                  at("in/red/01.jpg"));
  std::vector<NamedArray> seen = read_npz(at("seen.npz"), 1 << 20);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].shape, (std::vector<std::int64_t>{2, 3, 16, 16}));
  const ListedArray listed{.name = "image", .array = &seen[0]};
  write_npz(at("image.npz"), {&listed, 1});
  const std::string command = sample_path("../../acceptance/onnx_run.py") + " " + at("model.onnx") + " " +
                              at("image.npz") + " " + at("outputs.npz");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::vector<NamedArray> outputs = read_npz(at("outputs.npz"), 1 << 20);
  const auto probabilities = std::ranges::find(outputs, "probabilities", &NamedArray::name);
  ASSERT_NE(probabilities, outputs.end());
  ASSERT_EQ(probabilities->values.size(), 4u);
  ASSERT_EQ(predicted.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    for (const nlohmann::json& prediction : predicted[i]["predictions"]) {
      const float found = probabilities->values[2 * i + prediction["index"].get<std::size_t>()];
      EXPECT_NEAR(found, prediction["probability"].get<double>(), 1e-5) << i;
    }
  }
}

/// Pictures of 30 x 20 pixels are scaled to a width of 16 pixels. Then two rows of padding are added above and three
/// below.
TEST_F(ImageProgramsTest, PredictAndExportWithTheFitOfTheTraining) {
  expect_done(train("padded", "--max-steps 1 --fit pad"));
  predictions("--checkpoint " + at("padded") + " --images " + at("seen.npz") + " " + at("in/blue/00.jpg"));
  const NamedArray image = read_npz(at("seen.npz"), 1 << 20).at(0);
  const std::array mean{124.0f, 116.0f, 104.0f};  // ImageNet's mean, which torchvision's preprocessing uses
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto row = [&](std::size_t y) {
      const auto first = image.values.begin() + static_cast<std::ptrdiff_t>((channel * 16 + y) * 16);
      return std::vector<float>(first, first + 16);
    };
    for (const std::size_t y : {0, 1, 13, 14, 15}) EXPECT_THAT(row(y), ::testing::Each(mean[channel])) << y;
    for (const std::size_t y : {2, 12}) EXPECT_THAT(row(y), Not(::testing::Each(mean[channel]))) << y;
  }
  expect_done("checkpoint_tool export --onnx " + at("padded.onnx") + " " + at("padded"));
  EXPECT_THAT(testing::read_text(root_ / "padded.onnx"), HasSubstr(R"-("fit":"pad",)-"));
  EXPECT_THAT(run(train("padded", "--max-steps 2 --fit squash")).output,
              HasSubstr("warning: --fit was \"pad\" up to the checkpoint and is \"squash\" from here"));
}

/// The schedule must end at the step at which the time ends. Both ranks must end at this step.
TEST_F(ImageProgramsTest, FitTheirScheduleIntoTheirTime) {
  const std::string command =
      train("budget", "--max-steps 200000 --time-budget 1.5 --check-replicas 1 --log-every 1 --threads 1");
  expect_done(command, two_ranks);
  const std::vector<std::int64_t> saved = list_checkpoints(at("budget"));
  ASSERT_FALSE(saved.empty());
  EXPECT_LT(saved.front(), 200000);
  const std::optional<PacePoint> pace = logged_pace(at("budget"), saved.front());
  ASSERT_TRUE(pace);
  EXPECT_EQ(pace->last_step, saved.front());
  std::istringstream lines(testing::read_text(root_ / "budget/metrics.jsonl"));
  double step = 0.0, position = 0.0, left = 0.0;  // the values of the last plan in the log
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("planned_steps")) {
      step = json["step"];
      position = json["schedule_step"];
      left = json["planned_steps"].get<double>() - step;
    } else if (json.contains("learning_rate")) {
      const double done = (json["step"].get<double>() - step) / left;
      const double at = std::round(position + done * (200000.0 - position)) / 200000.0;
      EXPECT_NEAR(json["learning_rate"].get<double>(), 0.05 * (1.0 + std::cos(std::numbers::pi * at)) / 2.0, 1e-7)
          << line;
    }
  }
  EXPECT_THAT(run(command).output,
              HasSubstr(", where --time-budget 1.5 or --max-steps ended the run (--fresh starts over)"));
}

TEST_F(ImageProgramsTest, LogTheLossForTensorBoardWithEachConsoleLine) {
  const Outcome outcome = run(train("curves", "--max-steps 5 --log-every 2"));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("step 4, loss = .+ sec/batch\\), L2 = 0\\."));
  std::set<std::int64_t> steps;
  const std::vector<std::string> files = testing::event_files(at("curves"));
  const auto events =
      std::ranges::find_if(files, [](const std::string& file) { return file.find("events.out") != std::string::npos; });
  ASSERT_NE(events, files.end());
  for (const event::Event& event : testing::read_events(*events)) {
    for (const auto& value : event.summary().value()) {
      if (value.tag() == "cross_entropy") steps.insert(event.step());
    }
  }
  EXPECT_EQ(steps, (std::set<std::int64_t>{0, 2, 4}));
}

TEST_F(ImageProgramsTest, FineTuneWithNewClassesAndFrozenVariables) {
  expect_done(train("base", "--max-steps 4"));
  for (const char* name : {"red", "green", "blue"}) {
    fs::create_directories(root_ / "in3" / name);
    for (const fs::directory_entry& file : fs::directory_iterator(root_ / "in" / (name[0] == 'g' ? "red" : name))) {
      fs::copy_file(file.path(), root_ / "in3" / name / file.path().filename());
    }
  }
  expect_done("tfrecord_convert images --input " + at("in3") + " --output " + at("set3"));
  const std::string tune = "image_train --model resnet9 --image-size 16 --batch-size 8 --max-steps 3 --data '" +
                           at("set3/train-*") + "' --train-dir " + at("tuned") + " --init-from " + at("base");
  expect_failure(tune, ExitCode::data, "(--init-exclude gives variables their initial values)");
  const Outcome outcome = run(tune + " --init-exclude 'logits/*' --freeze 'prep*' 'layer1*'");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("without the variables of --init-exclude: logits/weights"));
  const Outcome diff = run("checkpoint_tool diff " + at("base/model.ckpt-4.h5") + " " + at("tuned"));
  EXPECT_THAT(diff.output, Not(HasSubstr("variables/layer1/weights")));
  EXPECT_THAT(diff.output, Not(HasSubstr("variables/prep/weights")));
  EXPECT_THAT(diff.output, HasSubstr("variables/layer2/weights"));
  expect_failure(tune + " --fresh --init-exclude 'x*'", ExitCode::usage, "--init-exclude: 'x*' matches no variable");
  expect_failure(tune + " --fresh --init-exclude 'logits/*' --freeze 'x*'", ExitCode::usage,
                 "--freeze: 'x*' matches no variable");
  expect_failure(train("unused", "--init-exclude 'logits/*'"), ExitCode::usage, "--init-exclude requires --init-from");
  const std::string evaluate = "image_eval --checkpoint " + at("tuned") + " --data '";
  expect_failure(evaluate + at("set/validation-*") + "'", ExitCode::data, "names 2 classes, expected 3");
}

/// The labels begin at 1. One record is a CMYK JPEG, and one is a PNG that is labelled as JPEG.
TEST_F(ImageProgramsTest, TakeImagenetsRecordsAsTensorflowWritesThem) {
  const std::string data = " --data " + sample_path("imagenet.tfrecord"), size = "--model resnet9 --image-size 16 ";
  for (const char* form : {"torchvision", "tensorflow"}) {
    expect_done("image_train " + size + "--batch-size 4 --max-steps 2 --classes 1000 --train-dir " + at(form) + data +
                " --preprocessing " + form);
    expect_done("image_eval --checkpoint " + at(form) + data + " --report " + at("report.json"));
    const nlohmann::json report = nlohmann::json::parse(read_bytes(at("report.json")));
    std::map<int, int> counts;  // number of records of each class
    for (const nlohmann::json& each : report["classes"]) {
      if (each["support"] != 0) counts[each["class"].get<int>()] = each["support"];
    }
    EXPECT_EQ(counts, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}})) << "labels 1 to 4, two records each";
  }
  expect_other_variables("torchvision", "tensorflow");
  expect_failure("image_train " + size + "--batch-size 4 --max-steps 3 --classes 4 --first-label 0 --train-dir " +
                     at("zero") + data,
                 ExitCode::data, "feature 'image/class/label' is 4, outside 0..3");
}

TEST_F(ImageProgramsTest, SayInEachLineThatDataAreSynthetic) {
  const Outcome outcome =
      run("image_train --data synthetic --model resnet9 --image-size 16 --batch-size 4 --max-steps 3 "
          "--log-every 1 --train-dir " +
          at("synthetic"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_GE(std::ranges::count(outcome.output, '\n'), 4);
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(line, HasSubstr("[synthetic data]"));
  EXPECT_THAT(run("mnist_train --data synthetic --max-steps 1 --train-dir " + at("digits")).output,
              HasSubstr("[synthetic data]"));
  EXPECT_THAT(run("mnist_eval --data synthetic --checkpoint " + at("digits")).output,
              HasSubstr("/10000) [synthetic data]\n"));
}

TEST_F(ImageProgramsTest, LeaveOutDamagedRecordsWhereAsked) {
  RecordReader reader(at("set/train-00000-of-00001.tfrecord"));
  std::string bytes;
  Record record;
  for (int i = 0; i < 16 && reader.next(record); ++i) {
    append_record(bytes, std::as_bytes(record.data.first(i == 5 ? record.data.size() / 2 : record.data.size())));
  }
  fs::create_directories(root_ / "damaged");
  std::ofstream(root_ / "damaged/train-0", std::ios::binary) << bytes;
  const auto command = [&](const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --classes 2 --global-batch 16 --micro-batch 8 --max-steps 2 "
           "--data " +
           at("damaged/train-0") + " --train-dir " + at(directory) + " " + more;
  };
  const Outcome ended = run(command("ended", ""));
  EXPECT_EQ(ended.code, static_cast<int>(ExitCode::data)) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("train-0: record 5 at byte"));
  const Outcome outcome = run(command("went_on", "--skip-damaged"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("warning: rank 0: skipped: " + at("damaged/train-0") + ": record 5 at byte"));
  EXPECT_THAT(outcome.output, HasSubstr("1 damaged record was skipped"));
  expect_done(command("together", "--skip-damaged"), two_ranks);
  expect_same_arrays("went_on", "together");
  expect_failure(command("cached", "--skip-damaged --cache memory"), ExitCode::usage, "--skip-damaged");
}

TEST_F(ImageProgramsTest, RejectInvalidOptions) {
  expect_failure(train("refused", "--classes 3"), ExitCode::usage, "--classes 3 contradicts records.json of");
  expect_failure(train("refused", "--first-label 0"), ExitCode::usage, "--first-label 0 contradicts records.json of");
  fs::create_directories(root_ / "bare");
  fs::copy_file(at("set/train-00000-of-00001.tfrecord"), at("bare/train-0"), fs::copy_options::overwrite_existing);
  const std::string bare = "image_train --model resnet9 --image-size 16 --batch-size 4 --max-steps 2 --data " +
                           at("bare/train-0") + " --train-dir " + at("refused");
  expect_failure(bare, ExitCode::usage, "--classes is missing, and the folder of");
  expect_failure(bare + " --classes 1", ExitCode::data, "feature 'image/class/label' is 2, outside 1..1");
  EXPECT_FALSE(fs::exists(at("refused/model.ckpt-0.h5")));
  fs::create_directories(root_ / "other");
  fs::copy_file(at("set/validation-00000-of-00001.tfrecord"), at("other/validation-0"),
                fs::copy_options::overwrite_existing);
  std::ofstream(root_ / "other/records.json")
      << R"({"carillon_records": 1, "image_key": "image/encoded", "label_key": "image/class/label", "first_label": 0,
             "classes": ["blue", "red"]})";
  expect_failure(train("refused", "--eval-data " + at("other/validation-0")), ExitCode::data,
                 "the keys, the first label or the background differ from");
  expect_failure(
      "image_train --model airbench94 --image-size 130 --data '" + at("set/train-*") + "' --train-dir " + at("refused"),
      ExitCode::usage, "square images of 12 x 12 to 128 x 128");
  expect_done(bare + " --classes 2");
  expect_failure("cifar10_eval --data " + at("bare/train-0") + " --checkpoint " + at("refused"), ExitCode::data,
                 "was trained by image_train");
}

}  // namespace
}  // namespace carillon
