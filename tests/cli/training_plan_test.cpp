#include "src/cli/launch/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "carillon/core/error.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

fs::path scratch() {
  const fs::path folder = fs::path(testing::TempDir()) / ("training_plan_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(TrainingPlan, IsReadAsItWasWritten) {
  const fs::path folder = scratch();
  EXPECT_FALSE(read_plan(folder));
  const TrainingPlan plan{.pictures = "/home/Zoë/pictures",
                          .fingerprint = "3 files",
                          .contents = "3 files, 9 bytes, 01234567",
                          .data = "/data",
                          .conversion = {"--skip-damaged"},
                          .from = "/weights.safetensors",
                          .network = "resnet9",
                          .image_size = 64,
                          .steps = 300,
                          .watched = "validation",
                          .evaluated = "test",
                          .ranks = 2,
                          .minutes = 2.5};
  write_plan(folder, plan, "model = resnet9\n");
  const std::optional<TrainingPlan> read = read_plan(folder);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pictures, plan.pictures);
  EXPECT_EQ(read->fingerprint, plan.fingerprint);
  EXPECT_EQ(read->contents, plan.contents);
  EXPECT_EQ(read->data, plan.data);
  EXPECT_EQ(read->conversion, plan.conversion);
  EXPECT_EQ(read->from, plan.from);
  EXPECT_EQ(read->watched, plan.watched);
  EXPECT_EQ(read->evaluated, plan.evaluated);
  EXPECT_EQ(read->network, plan.network);
  EXPECT_EQ(read->image_size, plan.image_size);
  EXPECT_EQ(read->steps, plan.steps);
  EXPECT_EQ(read->ranks, plan.ranks);
  EXPECT_EQ(read->minutes, plan.minutes);
  std::ifstream settings(settings_path(folder));
  std::string line;
  std::getline(settings, line);
  EXPECT_EQ(line, "model = resnet9");
}

TEST(TrainingPlan, OtherContentsAreRefusedByName) {
  const fs::path folder = scratch();
  for (const char* const contents :
       {"", "[]", "{\"format_version\": 1}", "{\"format_version\": 2}", "{\"format_version\": \"x\"}"}) {
    std::ofstream(folder / "plan.json") << contents;
    try {
      read_plan(folder);
      FAIL() << contents;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << contents;
      EXPECT_NE(std::string(error.what()).find("plan.json"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace carillon
