// Runs image_train, image_eval and carillon_predict like a user, starting with a folder of pictures.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/npz.h"
#include "src/images/picture.h"
#include "tests/app/predictions.h"
#include "tests/data/program_fixture.h"
#include "tests/support/markup.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// Two classes, red and blue, that a network learns in a few steps. The fixture converts them once.
class ImageProgramsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / fmt::format("carillon.images.{}", ::getpid());
    for (int i = 0; i < 40; ++i) put(i % 2 == 0 ? "blue" : "red", i);
    ASSERT_EQ(
        run("tfrecord_convert images --input " + at("in") + " --output " + at("set") + " --validation-share 0.2").code,
        0);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static std::string at(const std::string& name) { return (root_ / name).string(); }

  /// A picture of stripes with a unique size.
  static void put(const std::string& name, int i) {
    Picture picture{.height = 20 + i % 7, .width = 30 - i % 5, .channels = 3, .pixels = {}};
    for (std::int64_t p = 0; p < picture.height * picture.width; ++p) {
      const auto shade = static_cast<std::uint8_t>((p * (i + 3)) % 90);
      const auto strong = static_cast<std::uint8_t>(200 + shade / 2);
      const bool is_red = name == "red";
      for (const std::uint8_t value : {is_red ? strong : shade, shade, is_red ? shade : strong}) {
        picture.pixels.push_back(value);
      }
    }
    fs::create_directories(root_ / "in" / name);
    const std::string file = encode_jpeg(picture, 90);
    std::ofstream(root_ / "in" / name / fmt::format("{:02}.jpg", i), std::ios::binary) << file;
  }

  static Outcome run(const std::string& command, const std::string& launcher = "") {
    return run_program(command, launcher);
  }
  static std::string train(const std::string& directory, const std::string& more) {
    return "image_train --model resnet9 --image-size 16 --batch-size 8 --learning-rate 0.05 --data '" +
           at("set/train-*") + "' --train-dir " + at(directory) + " " + more;
  }
  static void expect_done(const std::string& command, const std::string& launcher = "") {
    const Outcome outcome = run(command, launcher);
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.output;
  }
  static void expect_failure(const std::string& command, ExitCode code, const std::string& text) {
    expect_one_line(run(command), code, text);
  }
  /// Whether variables of two train directories differ; not only options, as seeds and names of directories do.
  static void expect_other_variables(const std::string& a, const std::string& b) {
    const Outcome outcome = run("checkpoint_tool diff " + at(a) + " " + at(b));
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("variables/"));
  }
  /// Whether two train directories end with the same arrays.
  static void expect_same_arrays(const std::string& a, const std::string& b) {
    const Outcome outcome = run("checkpoint_tool diff --arrays " + at(a) + " " + at(b));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }

  inline static fs::path root_;
};

constexpr const char* two_ranks = "mpirun --allow-run-as-root --oversubscribe -np 2 ";
constexpr const char* four_ranks = "mpirun --allow-run-as-root --oversubscribe -np 4 ";

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

/// The training set has 32 records.
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
                 "--max-steps 3: the schedule ends within the 3 steps of --warmup-steps");
  EXPECT_FALSE(fs::exists(at("none")));
}

/// Earlier versions called resnet18_cifar resnet18.
TEST_F(ImageProgramsTest, LoadCheckpointsOfEarlierVersionsByTheirStem) {
  const auto as_before = [](const std::string& directory) {
    const fs::path path = checkpoint_path(at(directory), 1);
    CheckpointState state = read_checkpoint(path);
    EXPECT_EQ(state.model, "resnet18_cifar");
    state.model = "resnet18";
    write_checkpoint(path, state);
  };
  const std::string small = "--image-size 16 --batch-size 2 --data '" + at("set/train-*") + "' --train-dir ";
  const std::string train_cifar = "image_train --model resnet18_cifar " + small + at("former");
  expect_done(train_cifar + " --max-steps 1 --schedule-steps 2");
  as_before("former");
  expect_done("image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("former"));
  EXPECT_EQ(predictions("--checkpoint " + at("former") + " " + at("in/red/01.jpg")).size(), 1u);
  expect_done("checkpoint_tool export --onnx " + at("former.onnx") + " " + at("former"));
  EXPECT_THAT(run("checkpoint_tool inspect " + at("former")).output, HasSubstr("model resnet18_cifar, step 1"));
  expect_done("image_train --model resnet18_cifar " + small + at("of_former") + " --max-steps 0 --init-from " +
              at("former"));
  expect_failure("image_train --model resnet18 --image-size 32 --batch-size 2 --data '" + at("set/train-*") +
                     "' --max-steps 2 --train-dir " + at("former"),
                 ExitCode::data, "is of model 'resnet18_cifar', this run trains 'resnet18'");
  const Outcome resumed = run(train_cifar + " --max-steps 2 --schedule-steps 2");
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("model.ckpt-1.h5 at step 1"));

  const std::string cifar = "cifar10_train --data synthetic --batch-size 2 --train-dir " + at("former10");
  expect_done(cifar + " --model resnet18 --max-steps 1");
  as_before("former10");
  expect_done("cifar10_eval --data " + sample_path("cifar10.tfrecord") + " --checkpoint " + at("former10"));
  expect_done(cifar + " --model resnet18_cifar --max-steps 2");
}

TEST_F(ImageProgramsTest, ReportsNameTheClasses) {
  expect_done(train("named", "--max-steps 0"));
  for (const char* report : {"report.csv", "report.json"}) {
    expect_done("image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("named") + " --report " +
                at(report));
  }
  const std::string csv = read_bytes(at("report.csv"));
  EXPECT_THAT(csv, HasSubstr(",predicted_blue,predicted_red,loss\r\nblue,4,"));
  EXPECT_EQ(nlohmann::json::parse(read_bytes(at("report.json"))).at("classes")[1].at("name"), "red");
}

TEST_F(ImageProgramsTest, WriteThePredictionsOfPicturesWithTheirNames) {
  expect_done(train("predicted", "--max-steps 30"));
  const std::string evaluate = "image_eval --data '" + at("set/validation-*") + "' --checkpoint " + at("predicted");
  expect_done(evaluate + " --report " + at("page.html") + " " + at("two.csv") + " --predictions " +
              at("predictions.csv") + " --mistakes " + at("none.png"));
  std::istringstream lines(read_bytes(at("predictions.csv")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "file,record,picture,true,predicted,class_1,probability_1,class_2,probability_2\r");
  const std::string file = at("set/validation-00000-of-00001.tfrecord");
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, testing::MatchesRegex(file + "," + std::to_string(count) +
                                            ",[0-3][0-9].jpg,(blue,blue,blue|red,red,red),[01][.0-9]*,(red|blue),.*"));
    const bool is_blue = line.find(",blue,blue,") != line.npos;
    const std::string picture = line.substr(line.find(".jpg") - 2, 2);
    EXPECT_EQ(std::stoi(picture) % 2 == 0, is_blue) << line;
  }
  EXPECT_EQ(count, 8);
  EXPECT_THAT(read_bytes(at("page.html")), HasSubstr("There are no mistakes."));
  EXPECT_THAT(read_bytes(at("page.html")), HasSubstr("<i>true</i> <bdi>red</bdi>"));
  EXPECT_THAT(read_bytes(at("two.csv")), HasSubstr("\r\nblue,4,4,4,1,1,4,0,"));
  EXPECT_THAT(read_bytes(at("none.png")), testing::StartsWith("\x89PNG"));
}

TEST_F(ImageProgramsTest, PagesEscapeTheNamesOfClasses) {
  const std::string name = "<b>&\"' x";
  fs::create_directories(root_ / "odd" / name);
  fs::create_directories(root_ / "odd/plain");
  for (const char* const picture : {"blue/00.jpg", "red/01.jpg"}) {
    fs::copy_file(root_ / "in" / picture, root_ / "odd" / (picture[0] == 'b' ? name : "plain") / "1.jpg");
  }
  expect_done("tfrecord_convert images --input " + at("odd") + " --output " + at("odd_set"));
  expect_done("image_train --model resnet9 --image-size 16 --batch-size 2 --max-steps 0 --data '" +
              at("odd_set/train-*") + "' --train-dir " + at("odd_run"));
  expect_done("image_eval --data '" + at("odd_set/train-*") + "' --checkpoint " + at("odd_run") + " --report " +
              at("odd.html"));
  const Markup page(read_bytes(at("odd.html")));
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, HasSubstr("true " + name));
}

/// The checkpoint holds the background of the conversion. Pictures of all formats are predicted as they are shown.
TEST_F(ImageProgramsTest, PredictionsSeePicturesAsTheConversionDoes) {
  const auto sample = [](const std::string& name) { return sample_path("../pictures/" + name); };
  for (const char* name : {"a", "b"}) {
    fs::create_directories(root_ / "clear" / name);
    fs::copy(sample("transparent.png"), root_ / "clear" / name);
  }
  expect_done("tfrecord_convert images --input " + at("clear") + " --output " + at("on_blue") +
              " --background '#0000ff'");
  expect_done("image_train --model resnet9 --image-size 16 --max-steps 0 --data '" + at("on_blue/train-*") +
              "' --train-dir " + at("blue"));
  fs::create_directories(root_ / "shown");
  fs::copy(sample(CARILLON_HAS_PICTURE_FORMATS != 0 ? "colour.tif" : "oriented_1.jpg"), root_ / "shown/2.tif");
  fs::copy(sample("oriented_6.jpg"), root_ / "shown/3.jpg");
  fs::copy(sample("oriented_1.jpg"), root_ / "shown/4.jpg");
  fs::copy(sample("transparent.png"), root_ / "shown/1.jpg");  // a wrong ending
  expect_done("carillon_predict --checkpoint " + at("blue") + " --images " + at("shown.npz") + " " + at("shown"));
  const NamedArray seen = read_npz(at("shown.npz"), 1 << 20).at(0);
  ASSERT_EQ(seen.shape, (std::vector<std::int64_t>{4, 3, 16, 16}));
  const auto value = [&](std::size_t picture, std::size_t channel, std::size_t row, std::size_t column) {
    return seen.values[((picture * 3 + channel) * 16 + row) * 16 + column];
  };
  EXPECT_LT(value(0, 0, 0, 0), 60);  // nearly transparent: blue
  EXPECT_GT(value(0, 2, 0, 0), 200);
  for (const std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{15}}) {
    EXPECT_NEAR(value(1, 0, 7, i), value(3, 0, 7, i), 12);  // the same picture as TIFF and as JPEG
    EXPECT_NEAR(value(2, 0, i, 8), value(3, 0, 7, i), 2);   // turned to the right
  }
  expect_failure("carillon_predict --checkpoint " + at("blue") + " " + at("shown.npz"), ExitCode::data,
                 "neither a JPEG nor a PNG");
}

/// The 3 steps are one and a half epochs.
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
  expect_done(command("undistorted", "--max-steps 1 --distort false"));
  expect_done(command("still", "--max-steps 1 --distort false" + both));
  expect_same_arrays("undistorted", "still");
  const std::string options = read_checkpoint(checkpoint_path(at("augmented"), 3)).options_json;
  EXPECT_THAT(options, HasSubstr("\"rand_augment\":\"2,9\""));
  expect_failure(command("none", "--rand-augment 2"), ExitCode::usage,
                 "--rand-augment: '2' is not 0, or N,M with N from 1 to 14 and M from 0 to 30");
  expect_failure(command("none", "--rand-augment 2,31"), ExitCode::usage, "--rand-augment: '2,31' is not 0, or N,M");
  expect_failure(command("none", "--random-erasing 1.5"), ExitCode::usage, "--random-erasing: '1.5' is not");
}

TEST_F(ImageProgramsTest, OtherSeedsSeeOtherParts) {
  expect_done(train("start", "--max-steps 0"));
  for (const char* seed : {"1", "2"}) {
    expect_done(train(std::string("seed") + seed, std::string("--fresh --max-steps 2 --shuffle false --seed ") + seed +
                                                      " --init-from " + at("start/model.ckpt-0.h5")));
  }
  expect_other_variables("seed1", "seed2");
}

/// numpy runs the exported model and computes the probabilities that carillon_predict prints.
TEST_F(ImageProgramsTest, ExportTheirNetworks) {
  expect_done(train("exported", "--max-steps 2"));
  expect_done("checkpoint_tool export --onnx " + at("model.onnx") + " " + at("exported"));
  const std::vector<nlohmann::json> predicted =
      predictions("--checkpoint " + at("exported") + " --images " + at("seen.npz") + " " + at("in/blue/00.jpg") + " " +
                  at("in/red/01.jpg"));
  std::vector<NamedArray> seen = read_npz(at("seen.npz"), 1 << 20);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].shape, (std::vector<std::int64_t>{2, 3, 16, 16}));
  const ListedArray listed{.name = "image", .array = &seen[0]};
  write_npz(at("image.npz"), {&listed, 1});
  const std::string command = "/usr/bin/python3 " + sample_path("../../acceptance/onnx_numpy.py") + " " +
                              at("model.onnx") + " " + at("image.npz") + " " + at("outputs.npz");
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

/// Labels from 1, a CMYK JPEG, a PNG that is called JPEG.
TEST_F(ImageProgramsTest, TakeImagenetsRecordsAsTensorflowWritesThem) {
  const std::string data = " --data " + sample_path("imagenet.tfrecord"), size = "--model resnet9 --image-size 16 ";
  for (const char* form : {"torchvision", "tensorflow"}) {
    expect_done("image_train " + size + "--batch-size 4 --max-steps 2 --classes 1000 --train-dir " + at(form) + data +
                " --preprocessing " + form);
    expect_done("image_eval --checkpoint " + at(form) + data + " --report " + at("report.json"));
    const nlohmann::json report = nlohmann::json::parse(read_bytes(at("report.json")));
    std::map<int, int> counts;  // of the records, by class
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
  EXPECT_THAT(outcome.output, HasSubstr("1 damaged records were skipped"));
  expect_done(command("together", "--skip-damaged"), two_ranks);
  expect_same_arrays("went_on", "together");
  expect_failure(command("cached", "--skip-damaged --cache memory"), ExitCode::usage, "--skip-damaged");
}

TEST_F(ImageProgramsTest, RejectInvalidOptions) {
  expect_failure(train("refused", "--classes 3"), ExitCode::usage, "--classes 3 contradicts records.json of");
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

TEST_F(ImageProgramsTest, PredictTheOthersWhereAPictureIsDamaged) {
  expect_done(train("some", "--max-steps 1"));
  std::ofstream(root_ / "text.jpg") << "text";
  const std::string good = at("in/red/01.jpg"), predict = "carillon_predict --checkpoint " + at("some") + " ";
  const Outcome outcome = run(predict + good + " " + at("text.jpg") + " " + at("absent.jpg"));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data));
  EXPECT_THAT(outcome.output, HasSubstr("text.jpg: is neither a JPEG nor a PNG file"));
  EXPECT_THAT(outcome.output, HasSubstr("absent.jpg"));
  EXPECT_THAT(outcome.output, HasSubstr(good + "  "));
  expect_failure(predict, ExitCode::usage, "no pictures");
  expect_failure("carillon_predict " + good, ExitCode::usage, "--checkpoint");
  expect_failure("carillon_predict --checkpoint " + at("absent") + " " + good, ExitCode::no_input, "absent");
}

}  // namespace
}  // namespace carillon
