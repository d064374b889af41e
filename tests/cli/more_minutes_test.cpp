// Tests of `carillon train --more`. The tests run carillon as a user does.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "src/checkpoint/checkpoint.h"
#include "tests/cli/image_programs.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;

class MoreMinutesTest : public ImageProgramsTest {
 protected:
  /// Trains again in the train directory `run`, with these options.
  static Outcome train_again(const std::string& options) {
    return run("carillon train " + at("in") + " --train-dir " + at("run") + " --data-dir " + at("records") +
               " --model resnet9 --image-size 16 --ranks 1 " + options);
  }

  /// The contents of all files in the train directory, by name.
  static std::map<std::string, std::string> files() {
    std::map<std::string, std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(at("run"))) {
      if (entry.is_regular_file()) found[entry.path().filename()] = testing::read_text(entry.path());
    }
    return found;
  }
};

TEST_F(MoreMinutesTest, ChangeNothingIfTheTrainingIsRefused) {
  const Outcome first = train_again("--minutes 0.05");
  ASSERT_EQ(first.code, 0) << first.output;
  // The best state may be the last one. An earlier best state makes sure that there are later checkpoints.
  const std::int64_t last = list_checkpoints(at("run")).front();
  CheckpointState best = read_checkpoint(at("run/best.ckpt.h5"));
  best.global_step = last - 1;
  write_checkpoint(at("run/best.ckpt.h5"), best);
  const auto before = files();
  for (const char* const refused : {"--micro-batch 3", "--decay-exclude 'absent/*'", "--global-batch 4096000"}) {
    const Outcome outcome = train_again(std::string("--more 0.05 ") + refused);
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::usage)) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("the training did not begin"));
    EXPECT_TRUE(files() == before) << refused;
  }
  const Outcome more = train_again("--more 0.05");
  ASSERT_EQ(more.code, 0) << more.output;
  EXPECT_THAT(more.output, HasSubstr("best.ckpt.h5 at step " + std::to_string(last - 1)));
  EXPECT_GE(list_checkpoints(at("run")).front(), last);
  EXPECT_THAT(train_again("").output, HasSubstr("is finished; --fresh begins another"));
}

}  // namespace
}  // namespace carillon
