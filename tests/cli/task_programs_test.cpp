// Tests of multi-label and regression trainings, from pictures and a CSV file to predictions. The tests run the
// programs as a user does.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/checkpoint/checkpoint.h"
#include "src/images/picture.h"
#include "tests/cli/predictions.h"
#include "tests/data/program_fixture.h"
#include "tests/support/markup.h"

namespace carillon {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* two_ranks = "mpirun --allow-run-as-root --oversubscribe -np 2 ";
constexpr const char* four_ranks = "mpirun --allow-run-as-root --oversubscribe -np 4 ";

/// Has records of pictures that are red, blue, both or neither, and more or less bright. A record's labels are the
/// colours, and its number is the brightness in percent. The pictures are converted once.
class TaskProgramsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / fmt::format("carillon.tasks.{}", ::getpid());
    fs::create_directories(root_ / "in");
    std::string labels = "path,labels\n", numbers = "path,brightness\n";
    for (int i = 0; i < 40; ++i) {
      const bool red = i % 2 == 0, blue = i / 2 % 2 == 0;
      const std::string name = fmt::format("{:02}.png", i);
      put(name, red, blue, i);
      labels += fmt::format("{},{}{}{}\n", name, red ? "red" : "", red && blue ? ";" : "", blue ? "blue" : "");
      numbers += fmt::format("{},{}\n", name, 20 + 2 * i);
    }
    std::ofstream(at("labels.csv")) << labels;
    std::ofstream(at("numbers.csv")) << numbers;
    for (const char* const set : {"labels", "numbers"}) {
      const Outcome outcome =
          run(fmt::format("tfrecord_convert images --input {} --targets {}.csv --output {}.set "
                          "--validation-share 0.2",
                          at("in"), at(set), at(set)));
      ASSERT_EQ(outcome.code, 0) << outcome.output;
    }
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static std::string at(const std::string& name) { return (root_ / name).string(); }

  static void put(const std::string& name, bool red, bool blue, int i) {
    Picture picture{.height = 16, .width = 16, .channels = 3, .pixels = {}};
    const int strong = 51 + i * 5;
    for (int p = 0; p < 16 * 16; ++p) {
      const int noise = p * (i + 3) % 20;
      picture.pixels.push_back(static_cast<std::uint8_t>(red ? strong - noise : noise));
      picture.pixels.push_back(static_cast<std::uint8_t>(strong - noise));
      picture.pixels.push_back(static_cast<std::uint8_t>(blue ? strong - noise : noise));
    }
    std::ofstream(root_ / "in" / name, std::ios::binary) << encode_png(picture);
  }

  static Outcome run(const std::string& command, const std::string& launcher = "") {
    return run_program(command, launcher);
  }
  static void expect_done(const std::string& command, const std::string& launcher = "") {
    const Outcome outcome = run(command, launcher);
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.output;
  }
  static void expect_same_arrays(const std::string& a, const std::string& b) {
    const Outcome outcome = run("checkpoint_tool diff --arrays " + at(a) + " " + at(b));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  static std::string train(const std::string& set, const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --min-crop-area 0.5 --data '" + at(set) +
           ".set/train-*' --train-dir " + at(directory) + " " + more;
  }
  static std::string evaluate(const std::string& set, const std::string& directory) {
    return "image_eval --data '" + at(set) + ".set/validation-*' --checkpoint " + at(directory);
  }
  /// Expects that trainings with micro-batches have equal bits with 1, 2 and 4 ranks. The bits must also be equal if a
  /// training resumes with another number of ranks.
  static void expect_same_bits(const std::string& set, const std::string& more) {
    const std::string options = "--global-batch 16 --micro-batch 4 --schedule-steps 3 --mixup 0.4 " + more;
    expect_done(train(set, set + "one", options + " --max-steps 3"));
    expect_done(train(set, set + "two", options + " --max-steps 3"), two_ranks);
    expect_same_arrays(set + "one", set + "two");
    expect_done(train(set, set + "four", options + " --max-steps 3"), four_ranks);
    expect_same_arrays(set + "one", set + "four");
    expect_done(train(set, set + "again", options + " --max-steps 1"));
    expect_done(train(set, set + "again", options + " --max-steps 3"), two_ranks);
    expect_same_arrays(set + "one", set + "again");
  }

  inline static fs::path root_;
};

TEST_F(TaskProgramsTest, ANetworkLearnsLabelsAndNamesThem) {
  expect_done(train("labels", "learnt", "--batch-size 8 --learning-rate 0.05 --max-steps 60"));
  const Outcome evaluated = run(evaluate("labels", "learnt"));
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("mean average precision = 1.0000 (2 labels, 8 records)"));
  EXPECT_THAT(evaluated.output, HasSubstr("F1 at probability 0.5 = "));
  for (const nlohmann::json& line : predictions("--checkpoint " + at("learnt") + " " + at("in"))) {
    const int i = std::stoi(fs::path(line["file"].get<std::string>()).stem());
    if (i < 15) continue;  // the first 15 pictures are too dark to test
    std::set<std::string> expected, found;
    if (i % 2 == 0) expected.insert("red");
    if (i / 2 % 2 == 0) expected.insert("blue");
    for (const nlohmann::json& label : line["predictions"]) {
      EXPECT_GE(label["probability"], 0.5);
      found.insert(label["class"]);
    }
    EXPECT_EQ(found, expected) << line;
  }
}

TEST_F(TaskProgramsTest, ANetworkLearnsNumbersInTheirUnit) {
  expect_done(
      train("numbers", "measured", "--batch-size 8 --learning-rate 0.02 --max-steps 60 --regression-loss huber"));
  const Outcome evaluated = run(evaluate("numbers", "measured"));
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("R2 = 0.9"));
  EXPECT_THAT(evaluated.output, HasSubstr("mean absolute error = "));
  double error = 0.0;
  const std::vector<nlohmann::json> lines = predictions("--checkpoint " + at("measured") + " " + at("in"));
  for (const nlohmann::json& line : lines) {
    const int i = std::stoi(fs::path(line["file"].get<std::string>()).stem());
    error += std::abs(line["numbers"]["brightness"].get<double>() - (20 + 2 * i)) / static_cast<double>(lines.size());
  }
  EXPECT_LT(error, 8.0);
}

TEST_F(TaskProgramsTest, EvaluationsWriteTheSameOutputsAtAnyNumberOfRanks) {
  for (const std::string kind : {"label", "number"}) {
    const std::string set = kind + "s", train_dir = set + "_shown";
    expect_done(train(set, train_dir, "--batch-size 8 --max-steps 2"));
    for (const char* const launcher : {"", two_ranks}) {
      const std::string to = at(train_dir) + (*launcher == '\0' ? "/one." : "/two.");
      expect_done(fmt::format("{0} --report {1}html {1}json {1}csv --mistakes {1}png --predictions {1}predictions.csv",
                              evaluate(set, train_dir), to),
                  launcher);
    }
    for (const char* const file : {"html", "json", "csv", "png", "predictions.csv"}) {
      EXPECT_EQ(read_bytes(at(train_dir + "/one." + file)), read_bytes(at(train_dir + "/two." + file))) << set << file;
    }
    const Markup page(read_bytes(at(train_dir + "/one.html")));
    EXPECT_EQ(page.fault, "");
    EXPECT_EQ(std::ranges::count(page.elements, "img"), 8) << "the validation records";
    const auto report = nlohmann::json::parse(read_bytes(at(train_dir + "/one.json")));
    EXPECT_EQ(report.at("records"), 8);
    EXPECT_FALSE(report.at(set).empty());
  }
}

TEST_F(TaskProgramsTest, LabelsTrainWithEqualBitsAtAnyNumberOfRanks) { expect_same_bits("labels", "--drop-path 0.5"); }

TEST_F(TaskProgramsTest, NumbersTrainWithEqualBitsAtAnyNumberOfRanks) {
  expect_same_bits("numbers", "--regression-loss absolute");
}

TEST_F(TaskProgramsTest, EvaluationsDuringATrainingLogTheScores) {
  expect_done(
      train("numbers", "logged",
            "--batch-size 8 --max-steps 4 --eval-every 2 --eval-data '" + at("numbers") + ".set/validation-*'"));
  const std::string metrics = read_bytes(at("logged/metrics.jsonl"));
  for (const char* const name : {"\"eval_r2\":", "\"eval_mae\":", "\"eval_rmse\":", "\"squared_error\":"}) {
    EXPECT_THAT(metrics, HasSubstr(name));
  }
  EXPECT_TRUE(fs::exists(root_ / "logged" / "best.ckpt.h5"));
}

TEST_F(TaskProgramsTest, ACheckpointStoresTaskAndScales) {
  expect_done(train("numbers", "stored", "--batch-size 8 --max-steps 1"));
  const auto options = nlohmann::json::parse(read_checkpoint(checkpoint_path(at("stored"), 1)).options_json);
  EXPECT_EQ(options.at("task"), "regression");
  EXPECT_EQ(options.at("target means").size(), 1u);
  EXPECT_EQ(options.at("target deviations").size(), 1u);
  EXPECT_EQ(options.at("class names"), nlohmann::json({"brightness"}));
}

TEST_F(TaskProgramsTest, ARegressionClipsItsGradientUnlessAnOptionSaysOtherwise) {
  const auto clip_norm = [&](const std::string& directory, const std::string& more) {
    expect_done(train("numbers", directory, "--batch-size 8 --max-steps 1 " + more));
    return nlohmann::json::parse(read_checkpoint(checkpoint_path(at(directory), 1)).options_json).at("clip_norm");
  };
  EXPECT_EQ(clip_norm("clipped", ""), 1.0);
  EXPECT_EQ(clip_norm("unclipped", "--clip-norm 0"), 0.0);
}

TEST_F(TaskProgramsTest, OptionsThatDoNotFitTheTaskAreRefused) {
  const auto expect_failure = [](const std::string& command, const std::string& text) {
    expect_one_line(run(command), ExitCode::usage, text);
  };
  expect_failure(train("labels", "no", "--task regression"), "--task regression contradicts records.json of ");
  expect_failure(train("labels", "no", "--label-smoothing 0.1"), "--label-smoothing requires a classification");
  expect_failure(train("labels", "no", "--huber-delta 2"), "--huber-delta requires a regression");
  expect_failure(train("numbers", "no", "--classes 3"), "--classes 3 contradicts records.json of");
  EXPECT_FALSE(fs::exists(root_ / "no"));
}

TEST_F(TaskProgramsTest, ARunOfAnotherTaskIsNotContinued) {
  expect_done(train("labels", "mixed", "--batch-size 8 --max-steps 1"));
  expect_one_line(run(train("numbers", "mixed", "--batch-size 8 --max-steps 2")), ExitCode::usage,
                  "has the task \"multilabel\", and this run has \"regression\"");
}

TEST_F(TaskProgramsTest, RecordsOfAnotherTaskAreRefusedByAnEvaluation) {
  expect_done(train("labels", "labelled", "--batch-size 8 --max-steps 1"));
  expect_one_line(run(evaluate("numbers", "labelled")), ExitCode::data, "its task is regression, expected multilabel");
}

TEST_F(TaskProgramsTest, SyntheticTargetsNeedNoRecords) {
  expect_done(
      "image_train --model resnet9 --image-size 16 --data synthetic --task regression --classes 2 --batch-size 4 "
      "--max-steps 1 --train-dir " +
      at("noise"));
}

}  // namespace
}  // namespace carillon
