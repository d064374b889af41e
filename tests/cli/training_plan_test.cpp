#include "src/cli/launch/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "carillon/core/error.h"
#include "src/train/checkpointing/run_checkpoints.h"

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
                          .minutes = 2.5,
                          .evaluation_seconds = 12.5,
                          .views = 1};
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
  EXPECT_EQ(read->evaluation_seconds, plan.evaluation_seconds);
  EXPECT_EQ(read->views, plan.views);
  std::ifstream settings(settings_path(folder));
  std::string line;
  std::getline(settings, line);
  EXPECT_EQ(line, "model = resnet9");
}

/// At any time, the plan must belong to the checkpoints of the directory.
TEST(TrainingPlan, OfAFreshTrainingWaitsUntilTheEarlierCheckpointsAreRemoved) {
  const fs::path folder = scratch();
  write_plan(folder, {.network = "resnet9"}, "model = resnet9\n");
  std::ofstream(folder / "model.ckpt-3.h5") << "x";
  write_next_plan(folder, {.network = "resnet18"}, "model = resnet18\n");
  EXPECT_EQ(read_plan(folder)->network, "resnet9");
  remove_run_files(folder);
  EXPECT_FALSE(fs::exists(folder / "model.ckpt-3.h5"));
  EXPECT_FALSE(read_plan(folder));
  begin_next_plan(folder);
  EXPECT_EQ(read_plan(folder)->network, "resnet18");
  for (const fs::path& settings : {settings_path(folder), folder / "next-plan.cfg"}) {  // a restart reads the second
                                                                                        // plan
    std::string line;
    std::ifstream file(settings);
    std::getline(file, line);
    EXPECT_EQ(line, "model = resnet18") << settings;
  }
  EXPECT_FALSE(remove_next_plan(folder));
}

/// The settings of the plan must not change before the longer training begins.
TEST(TrainingPlan, OfALongerTrainingWaitsUntilTheTrainingBegins) {
  const fs::path folder = scratch();
  write_plan(folder, {.steps = 10, .minutes = 1.0}, "model = resnet9\nmax-steps = 10\ntime-budget = 50.0\n");
  const std::string settings = settings_with_length(folder, 20, 110.0);
  EXPECT_EQ(settings, "model = resnet9\nmax-steps = 20\ntime-budget = 110.0\n");
  write_next_plan(folder, {.steps = 20, .minutes = 2.0}, settings);
  EXPECT_EQ(read_plan(folder)->steps, 10);
  EXPECT_EQ(time_budget_of(folder), 50.0);
  begin_next_plan(folder);
  EXPECT_EQ(read_plan(folder)->steps, 20);
  EXPECT_EQ(time_budget_of(folder), 110.0);
  begin_next_plan(folder);  // a restart
  EXPECT_EQ(read_plan(folder)->steps, 20);
  EXPECT_FALSE(remove_next_plan(folder));
}

TEST(TrainingPlan, OfAFreshTrainingThatDidNotBeginIsRemoved) {
  const fs::path folder = scratch();
  write_plan(folder, {.network = "resnet9"}, "model = resnet9\n");
  write_next_plan(folder, {.network = "resnet18"}, "model = resnet18\n");
  EXPECT_TRUE(remove_next_plan(folder));
  EXPECT_EQ(read_plan(folder)->network, "resnet9");
  EXPECT_FALSE(fs::exists(folder / "next-plan.cfg"));
}

TEST(TrainingPlan, DoesNotOutliveItsCheckpoints) {
  const fs::path folder = scratch();
  write_plan(folder, {.network = "resnet9"}, "model = resnet9\n");
  remove_run_files(folder);
  EXPECT_FALSE(read_plan(folder));
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
