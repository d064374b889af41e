// Tests of carillon_predict with a network of mnist_train: the image that the network gets, and the JSON output.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "src/checkpoint/array_files.h"
#include "src/checkpoint/checkpoint.h"
#include "src/core/text_file.h"
#include "src/images/picture.h"
#include "tests/cli/predictions.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

class PredictTest : public ProgramFixture {
 protected:
  void SetUp() override {
    ProgramFixture::SetUp();
    const Outcome trained = run("mnist_train --data synthetic --max-steps 0 --train-dir " + path("digits"));
    ASSERT_EQ(trained.code, 0) << trained.output;
  }

  /// Writes a picture of 28 x 28 pixels, all with the same colour. Returns its path.
  std::string put(const std::string& name, const std::array<std::uint8_t, 3>& colour) const {
    Picture picture{.height = 28, .width = 28, .channels = 3, .pixels = {}};
    for (int i = 0; i < 28 * 28; ++i) picture.pixels.insert(picture.pixels.end(), colour.begin(), colour.end());
    return write(name, encode_png(picture));
  }

  /// Returns the JSON objects that the program prints. `arguments`: options and pictures.
  std::vector<nlohmann::json> predict(const std::string& arguments) const {
    return predictions("--checkpoint " + path("digits") + " " + arguments);
  }
};

/// The luma of ITU-R BT.601 is 0.299 red + 0.587 green + 0.114 blue.
TEST_F(PredictTest, AGreyNetworkSeesTheLumaOfColours) {
  const std::string pictures = put("red.png", {255, 0, 0}) + " " + put("green.png", {0, 255, 0}) + " " +
                               put("blue.png", {0, 0, 255}) + " " + put("orange.png", {250, 120, 20});
  EXPECT_EQ(predict("--images " + path("seen.npz") + " " + pictures).size(), 4u);
  const std::vector<NamedArray> seen = read_npz(path("seen.npz"), 1 << 20);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].shape, (std::vector<std::int64_t>{4, 1, 28, 28}));
  const std::array expected{76.0f, 150.0f, 29.0f, 147.0f};
  for (std::size_t i = 0; i < seen[0].values.size(); ++i) ASSERT_EQ(seen[0].values[i], expected[i / (28 * 28)]) << i;
}

TEST_F(PredictTest, JsonNamesEachClassWithItsIndexAndProbabilityTheLikeliestFirst) {
  const std::string picture = put("red.png", {255, 0, 0});
  const std::vector<nlohmann::json> objects = predict("--top 10 " + picture);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].at("file"), picture);
  std::set<int> indices;
  double before = 1.0, sum = 0.0;
  for (const nlohmann::json& prediction : objects[0].at("predictions")) {
    const int index = prediction.at("index");
    EXPECT_EQ(prediction.at("class"), std::to_string(index));
    indices.insert(index);
    const double probability = prediction.at("probability");
    EXPECT_LE(probability, before);
    before = probability;
    sum += probability;
  }
  EXPECT_THAT(indices, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

TEST_F(PredictTest, CsvHasALineForEachPictureWithAColumnForEachClass) {
  const std::string picture = put("red, bright.png", {255, 0, 0});
  const std::string command = "carillon_predict --checkpoint " + path("digits") + " --csv '" + picture + "'";
  write("table.csv", run(command).output);
  const CsvTable table = read_csv(path("table.csv"), "table", 1 << 20);
  EXPECT_THAT(table.header, testing::ElementsAre("file", "class", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  ASSERT_EQ(table.rows.size(), 1u);
  const std::vector<std::string>& cells = table.rows[0].cells;
  EXPECT_EQ(cells[0], picture);
  std::vector<double> probabilities;
  for (std::size_t i = 2; i < cells.size(); ++i) probabilities.push_back(csv_number(cells[i]).value_or(-1.0));
  EXPECT_EQ(cells[1], std::to_string(std::ranges::max_element(probabilities) - probabilities.begin()));
  EXPECT_NEAR(std::accumulate(probabilities.begin(), probabilities.end(), 0.0), 1.0, 1e-4);
  EXPECT_EQ(run(command + " --json").code, 64);
}

/// The checkpoint determines the image size. If an image of this size needs more memory than the host has, the program
/// must reject the checkpoint.
TEST_F(PredictTest, ABatchBeyondTheMemoryIsRefused) {
  const Outcome trained =
      run("image_train --model resnet18 --image-size 32 --classes 2 --data synthetic --batch-size 2 --max-steps 0 "
          "--train-dir " +
          path("pictures"));
  ASSERT_EQ(trained.code, 0) << trained.output;
  CheckpointState state = read_checkpoint(path("pictures/model.ckpt-0.h5"));
  nlohmann::json options = nlohmann::json::parse(state.options_json);
  options.at("image_size") = 4096;
  state.options_json = options.dump();
  write_checkpoint(path("large.h5"), state);
  std::string pictures;
  for (int i = 0; i < 1000; ++i) pictures.append(" ").append(path("absent.png"));
  expect_failure("carillon_predict --batch-size 1000 --checkpoint " + path("large.h5") + pictures, ExitCode::usage,
                 "--batch-size 1000 of 4096 x 4096 pixels: needs ");
}

}  // namespace
}  // namespace carillon
