// Tests of the names of record files: missing shards are reported, and messages contain hints.
#include "src/data/records/record_files.h"

#include <gmock/gmock.h>

#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class RecordFilesTest : public ProgramFixture {
 protected:
  /// Writes files with the names `names`, each with one MNIST record. Returns the paths of the files.
  std::vector<std::string> put(std::initializer_list<std::string> names) const {
    std::vector<std::string> paths;
    const std::string record = read_bytes(sample_path("tensorflow.tfrecord"));
    for (const std::string& name : names) paths.push_back(write(name, record));
    return paths;
  }
  static Failure shards(const std::vector<std::string>& paths) {
    return failure_of([&] { check_shards_exist(paths); });
  }
};

TEST_F(RecordFilesTest, AMissingShardIsNamed) {
  std::vector<std::string> paths =
      put({"train-00000-of-00004.tfrecord", "train-00001-of-00004.tfrecord", "train-00002-of-00004.tfrecord",
           "train-00003-of-00004.tfrecord", "other.tfrecord", "a-3-of-2", "b-of-2", "test-00000-of-00001.tfrecord.gz"});
  EXPECT_EQ(shards(paths).code, ExitCode::done);
  EXPECT_EQ(shards({paths[1]}).code, ExitCode::done) << "the others exist";
  std::filesystem::remove(paths[2]);
  paths.erase(paths.begin() + 2);
  const Failure failure = shards(paths);
  EXPECT_EQ(failure.code, ExitCode::no_input);
  EXPECT_EQ(failure.text, path("train-00002-of-00004.tfrecord") +
                              ": this shard of 4 is missing: restore it, or add --allow-missing-shards");
  EXPECT_EQ(shards({path("x-2-of-3.rec"), path("x-0-of-3.rec")}).text.substr(0, path("x-1-of-3.rec").size()),
            path("x-1-of-3.rec"));
}

TEST_F(RecordFilesTest, InspectionRefusesAMissingShard) {
  put({"train-00000-of-00002.tfrecord", "test-00000-of-00001.tfrecord"});
  const std::string files = path("train-00000-of-00002.tfrecord") + " " + path("test-00000-of-00001.tfrecord");
  expect_failure("tfrecord_inspect " + files, ExitCode::no_input, "train-00001-of-00002.tfrecord: this shard of 2");
  EXPECT_EQ(run("tfrecord_inspect --allow-missing-shards " + files).code, 0);
}

TEST_F(RecordFilesTest, AHintNamesFilesOfTheFolderThatSuit) {
  put({"test-00000-of-00001.tfrecord", "train-00000-of-00001.tfrecord", "records.json", "labels.txt"});
  const std::string folder = directory_.string();
  EXPECT_EQ(record_files_hint(folder, training_splits), "name its files: '" + folder + "/train-*'");
  EXPECT_EQ(record_files_hint(folder, evaluation_splits), "name its files: '" + folder + "/test-*'");
  std::filesystem::remove(path("train-00000-of-00001.tfrecord"));
  EXPECT_EQ(record_files_hint(folder, training_splits),
            "name its files, for example " + path("test-00000-of-00001.tfrecord"));
  std::filesystem::remove(path("test-00000-of-00001.tfrecord"));
  EXPECT_EQ(record_files_hint(folder, training_splits), "it holds no record files; tfrecord_convert makes them");
}

/// The command in the message must decompress the file, so that the file can be read under the same name.
TEST_F(RecordFilesTest, AFileIsDecompressedByTheCommandOfTheMessage) {
  const std::string bytes = read_bytes(sample_path("tensorflow.tfrecord"));
  write("it's.tfrecord", gzip_member(bytes));
  const Outcome outcome = run("tfrecord_inspect --index " + path("it\\'s.tfrecord"));
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::usage));
  const std::string start = "cannot be indexed; decompress it: ";
  const std::size_t at = outcome.output.find(start);
  ASSERT_NE(at, std::string::npos) << outcome.output;
  ASSERT_EQ(std::system(outcome.output.substr(at + start.size()).c_str()), 0) << outcome.output;
  EXPECT_EQ(read_bytes(path("it's.tfrecord")), bytes);
  EXPECT_EQ(run("tfrecord_inspect --index " + path("it\\'s.tfrecord")).code, 0);
}

}  // namespace
}  // namespace carillon
