#include "src/train/checkpointing/saved_network.h"

#include <gmock/gmock.h>

#include "carillon/models/networks.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

LoadedCheckpoint checkpoint_of(const Network& network, const std::string& options) {
  LoadedCheckpoint loaded{.path = "runs/model.ckpt-1.h5", .state = {}};
  loaded.state.model = "a name that no list has";
  loaded.state.network = description_text(network);
  loaded.state.options_json = options;
  return loaded;
}

const std::string records =
    R"({"record form": "grey", "image feature": "pixels", "target feature": "shape", "target": "classification",
        "class count": 3, "first class label": 1, "class names": ["square", "disc", "cross"]})";

TEST(SavedNetwork, IsBuiltFromItsDescriptionAlone) {
  const Network network = lenet_network({.image = {28, 28, 1}, .outputs = 3});
  const LoadedCheckpoint loaded = checkpoint_of(network, records);
  EXPECT_EQ(static_cast<const NetworkDescription&>(network_of(loaded)), network);
  const TrainedTarget target = trained_target(loaded);
  EXPECT_EQ(target.kind, TargetKind::class_index);
  EXPECT_EQ(target.outputs, 3);
  EXPECT_EQ(target.names, (std::vector<std::string>{"square", "disc", "cross"}));
}

TEST(SavedNetwork, HasTheImageSizeOfEvaluationsOfPictures) {
  const LoadedCheckpoint loaded =
      checkpoint_of(resnet18_network(cifar10_images()),
                    R"({"image_size": 32, "eval_image_size": 48, "class count": 10, "first class label": 0,
          "preprocessing": "torchvision"})");
  EXPECT_EQ(network_of(loaded).image, (ImageShape{48, 48, 3}));
}

TEST(SavedNetwork, ThatCannotBeBuiltIsBadDataWithTheFilesName) {
  LoadedCheckpoint loaded = checkpoint_of(lenet_network({.image = {28, 28, 1}, .outputs = 3}), records);
  loaded.state.network = "";
  Error error = error_of([&] { network_of(loaded); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), StartsWith("runs/model.ckpt-1.h5: the description of the network is damaged"));

  Network network = lenet_network({.image = {28, 28, 1}, .outputs = 3});
  network.image.height = 1 << 15;
  network.image.width = 1 << 15;
  error = error_of([&] { network_of(checkpoint_of(network, records)); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("for images of 32768 x 32768: 'fc1"));
}

TEST(SavedNetwork, WithOtherOutputsThanItsOptionsStateIsBadData) {
  const Error error = error_of([] { network_of(checkpoint_of(lenet_network(mnist_images()), records)); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("its network has 10 outputs, its options state 3"));
}

TEST(SavedNetwork, StatesTheRecordsOfItsTraining) {
  const RecordForm form = described_records(records);
  EXPECT_EQ(form.schema.keys.image, "pixels");
  EXPECT_EQ(form.schema.keys.label, "shape");
  EXPECT_EQ(form.schema.class_count, 3);
  EXPECT_EQ(form.schema.first_label, 1);
  EXPECT_TRUE(has_named_decoder(form));
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"grey\"", "\"own\""},
                                 {"\"class count\": 3", "\"class count\": 0"},
                                 {"\"classification\"", "\"detection\""},
                                 {"\"cross\"]", "\"cross\", \"star\"]"},
                                 {"\"pixels\"", "7"}}) {
    std::string changed = records;
    changed.replace(changed.find(from), from.size(), to);
    EXPECT_EQ(error_of([&] { described_records(changed); }).code(), ExitCode::data) << changed;
  }
}

TEST(SavedNetwork, DescribesRecordsThatItReadsAgain) {
  RecordForm form{.make_decoder = planar_records,
                  .schema = {.keys = {.image = "i", .label = "l"}, .image_shape = {32, 32, 3}, .class_count = 10}};
  form.schema.first_label = 2;
  RunDescription description;
  describe_records(form, ten_classes(), false, {}, description);
  const RecordForm read = described_records(description.json());
  EXPECT_EQ(read.schema.keys.image, "i");
  EXPECT_EQ(read.schema.keys.label, "l");
  EXPECT_EQ(read.schema.class_count, 10);
  EXPECT_EQ(read.schema.first_label, 2);
  EXPECT_EQ(read.schema.target, TargetKind::class_index);
}

TEST(SavedNetwork, WithATaskOfItsProgramIsUsedByThatProgramOnly) {
  const RecordForm form{.make_decoder = planar_records,
                        .schema = {.keys = {}, .image_shape = {32, 32, 3}, .class_count = 10}};
  RunDescription description;
  describe_records(form, ten_classes(), true, {}, description);
  const Error error = error_of([&] { described_records(description.json()); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_THAT(error.what(), HasSubstr("only the program that trained it can read its records"));
}

TEST(SavedNetwork, GetsAnotherPixelScale) {
  Network network = mnist_network({.image = {28, 28, 1}, .outputs = 10, .pixel_scale = 1.0f});
  set_pixel_scale(network, 0.5f);
  EXPECT_EQ(static_cast<const NetworkDescription&>(network),
            mnist_network({.image = {28, 28, 1}, .outputs = 10, .pixel_scale = 0.5f}));
}

}  // namespace
}  // namespace carillon::testing
