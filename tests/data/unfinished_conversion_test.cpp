// Tests of conversions that are killed between the renames of their files.
#include "src/data/records/unfinished_conversion.h"

#include <gmock/gmock.h>

#include <csignal>
#include <map>

#include "tests/data/picture_programs.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class UnfinishedConversion : public PictureProgramsTest {
 protected:
  using Files = std::map<std::string, std::string>;

  /// Returns the files in the output by name. `hidden`: whether hidden files count.
  Files files(bool hidden = true) const {
    Files found;
    for (const auto& entry : std::filesystem::directory_iterator(path("out"))) {
      const std::string name = entry.path().filename().string();
      if (hidden || !name.starts_with(".")) found[name] = read_bytes(entry.path().string());
    }
    return found;
  }
  /// Replaces the input of the conversions, and removes the output.
  void reset() const {
    std::filesystem::remove_all(path("in"));
    std::filesystem::remove_all(path("out"));
  }
  void put_old() const {
    put_classes(3);
    ASSERT_EQ(run(convert(more_)).code, 0);
    std::filesystem::remove_all(path("in"));
  }
  /// The new pictures have the same classes, because a conversion refuses other classes than the classes in the output.
  void put_new() const {
    for (int i = 0; i < 4; ++i) {
      for (const std::string name : {"ant", "bee"})
        put(fmt::format("in/{}/new-{}.png", name, i), picture("colour.png"));
    }
  }
  /// Converts the new pictures. Rename number `number`, counted from 1, gets the fault.
  Outcome run_with_fault(int number, const std::string& fault = "FAULT_ACTION=kill-before") const {
    return run(convert(more_), fmt::format("env LD_PRELOAD={}/libfaulty_calls.so FAULT_CALL=rename FAULT_PATH='{}/*' "
                                           "FAULT_NTH={} FAULT_TIMES=1 {} ",
                                           CARILLON_PROGRAMS, path("out"), number, fault));
  }
  static bool was_killed(const Outcome& outcome) { return outcome.code == 128 + SIGKILL; }
  /// Returns the command in the message.
  static std::string command_in(const std::string& message) {
    const std::size_t at = message.find("tfrecord_convert --finish");
    EXPECT_NE(at, message.npos) << message;
    return at == message.npos ? "false" : message.substr(at, message.find('\n', at) - at);
  }

  const std::string more_ = "--validation-share 0.5 --shards 2 --overwrite";
  static constexpr int rename_count = 7;  ///< the list, labels.txt, records.json, two shards of each split
};

/// Tests a fault at every rename, and at the removal of the list after the last rename.
TEST_F(UnfinishedConversion, IsRefusedUntilTheCommandOfTheMessageFinishesIt) {
  reset();
  put_new();
  ASSERT_EQ(run(convert(more_)).code, 0);
  const Files expected = files();
  for (int number = 1; number <= rename_count; ++number) {
    SCOPED_TRACE(number);
    reset();
    put_old();
    const Files old = files();
    put_new();
    const Outcome killed = run_with_fault(number);
    ASSERT_TRUE(was_killed(killed)) << killed.output;
    const std::string inspect = "tfrecord_inspect " + path("out/train-*");
    if (number == 1) {
      EXPECT_EQ(files(false), old);
      EXPECT_EQ(run(inspect).code, 0);
      continue;
    }
    const Outcome refused = run(inspect);
    expect_one_line(refused, ExitCode::data, path("out/unfinished_conversion.txt") + ": a conversion was interrupted");
    expect_failure("tfrecord_inspect --allow-missing-shards " + path("out/validation-*"), ExitCode::data,
                   "interrupted");
    const Outcome finished = run(command_in(refused.output));
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_EQ(finished.output, path("out") + ": finished the interrupted conversion\n");
    EXPECT_EQ(files(), expected);
    EXPECT_EQ(run(inspect).code, 0);
  }
  EXPECT_EQ(run_with_fault(rename_count + 1).code, 0) << "the conversion has more renames than this test kills";
}

TEST_F(UnfinishedConversion, IsRefusedByATraining) {
  put_old();
  put_new();
  ASSERT_TRUE(was_killed(run_with_fault(5)));
  expect_failure("image_train --data '" + path("out/train-*") + "' --train-dir " + path("run") + " --max-steps 1",
                 ExitCode::data, "finish it: tfrecord_convert --finish --output " + path("out"));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(UnfinishedConversion, IsFinishedByTheNextConversionFirst) {
  put_old();
  put_new();
  ASSERT_TRUE(was_killed(run_with_fault(4)));
  const Outcome next = run(convert(more_));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("finished the interrupted conversion"));
  EXPECT_EQ(run("tfrecord_inspect " + path("out/*.tfrecord")).code, 0);
  for (const std::string shard : {"train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"}) {
    for (const Stored& record : records(shard)) EXPECT_THAT(record.name, HasSubstr("/new-"));
  }
}

TEST_F(UnfinishedConversion, CanBeFinishedAfterAnErrorInARename) {
  put_old();
  put_new();
  const Outcome failed = run_with_fault(5, "FAULT_ERRNO=5");
  expect_one_line(failed, ExitCode::io, "cannot replace " + path("out/train-00001-of-00002.tfrecord"));
  EXPECT_EQ(run("tfrecord_convert --finish --output " + path("out")).code, 0);
  const Files repaired = files();
  reset();
  put_new();
  ASSERT_EQ(run(convert(more_)).code, 0);
  EXPECT_EQ(repaired, files());
}

TEST_F(UnfinishedConversion, OfWhichAFileIsMissingIsNotFinished) {
  put_old();
  put_new();
  ASSERT_TRUE(was_killed(run_with_fault(5)));
  ASSERT_EQ(std::system(("rm " + path("out") + "/.train-00001-*.tmp").c_str()), 0);
  expect_failure("tfrecord_convert --finish --output " + path("out"), ExitCode::data,
                 "is missing, so the interrupted conversion of this folder cannot be finished");
  EXPECT_EQ(run("tfrecord_inspect " + path("out/train-*")).code, static_cast<int>(ExitCode::data));
}

TEST_F(UnfinishedConversion, FollowsLinksOfShardsToOtherFolders) {
  put_old();
  std::filesystem::create_directory(path("disk"));
  std::filesystem::rename(path("out/train-00000-of-00002.tfrecord"), path("disk/shard"));
  std::filesystem::create_symlink(path("disk/shard"), path("out/train-00000-of-00002.tfrecord"));
  put_new();
  const std::string before = read_bytes(path("disk/shard"));
  ASSERT_TRUE(was_killed(run_with_fault(4)));
  EXPECT_EQ(run("tfrecord_convert --finish --output " + path("out")).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("out/train-00000-of-00002.tfrecord")));
  EXPECT_NE(read_bytes(path("disk/shard")), before);
  EXPECT_EQ(run("tfrecord_inspect " + path("out/*.tfrecord")).code, 0);
}

TEST_F(UnfinishedConversion, IsNotInAFolderWithoutOne) {
  put_old();
  const Outcome nothing = run("tfrecord_convert --finish --output " + path("out"));
  EXPECT_EQ(nothing.code, 0);
  EXPECT_EQ(nothing.output, path("out") + ": contains no interrupted conversion\n");
  expect_failure("tfrecord_convert images --finish --output " + path("out"), ExitCode::usage, "omit the format");
  expect_failure("tfrecord_convert --finish --input x --output " + path("out"), ExitCode::usage, "omit --input");
  expect_failure("tfrecord_convert --finish", ExitCode::usage, "--output DIR is missing");
}

TEST_F(UnfinishedConversion, WithADamagedListIsRefused) {
  put_old();
  write("out/unfinished_conversion.txt", "train-00000-of-00002.tfrecord\n");
  expect_failure("tfrecord_convert --finish --output " + path("out"), ExitCode::data, "is not a list");
}

}  // namespace
}  // namespace carillon
