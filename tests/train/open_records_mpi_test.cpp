// Tests how all ranks open a dataset. The ranks together determine the positions of its records only once, and copy its
// files once per host.
#include "src/train/input/records.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <fstream>

#include "carillon/core/file.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class RecordsTest : public RunTest {
 protected:
  RecordsTest() {
    for (int i = 0; i < 5; ++i) paths_.push_back((directory_ / fmt::format("set-{}", i)).string());
    on_first([&] {
      for (int i = 0; i < 5; ++i) {
        std::string bytes;
        for (int j = 0; j < 10 + i; ++j) append_record(bytes, mnist_example(20 * i + j, j % 10));
        write_text(paths_[i], bytes);
      }
    });
  }
  /// Rank 0 runs `work`, and the other ranks wait.
  void on_first(const std::function<void()>& work) const {
    if (mpi_.rank() == 0) work();
    mpi_.barrier();
  }
  static void expect_index_of(const std::vector<std::string>& paths, const FileIndex& index) {
    const std::vector<IndexedFile> files = index_files(paths, [](std::size_t) {});
    EXPECT_EQ(index.size(), paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
      ASSERT_TRUE(index.contains(paths[i]));
      const IndexedFile& file = index.at(paths[i]);
      EXPECT_EQ(file.offsets, files[i].offsets);
      EXPECT_EQ(file.checksums, files[i].checksums);
      EXPECT_EQ(file.bytes, files[i].bytes);
      EXPECT_EQ(file.changed_nanoseconds, files[i].changed_nanoseconds);
    }
  }
  Failure failure_to_stage(const std::vector<std::string>& paths) {
    return failure_of_run([&] { stage_files(paths, {.directory = directory_ / "disk"}, mpi_); });
  }
  /// If this rank reports the failure, expects that the text of the failure contains `text`.
  static void expect_reported(const Failure& failure, const std::string& text) {
    if (!failure.text.empty()) {
      EXPECT_THAT(failure.text, HasSubstr(text));
    }
  }
  static ino_t number_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_ino;
  }

  std::vector<std::string> paths_;
};

TEST_F(RecordsTest, TheIndexCoversAllFilesForAnyIndexFiles) {
  expect_index_of(paths_, share_index(paths_, mpi_));
  mpi_.barrier();
  // Writes an index file that lists some of the files. One of these files has changed since.
  on_first([&] {
    const std::vector<std::string> some(paths_.begin(), paths_.begin() + 3);
    const std::vector<IndexedFile> files = index_files(some, [](std::size_t) {});
    FileIndex index;
    for (int i = 0; i < 3; ++i) index.emplace(fmt::format("set-{}", i), files[i]);
    write_index_file(directory_, index);
    write_text(paths_[1], mnist_records(3));
  });
  expect_index_of(paths_, share_index(paths_, mpi_));
}

TEST_F(RecordsTest, WhatTheIndexFileSaysIsFoundOutByNobodyAgain) {
  on_first([&] {
    std::vector<IndexedFile> files = index_files({paths_[0]}, [](std::size_t) {});
    files[0].offsets.pop_back();
    files[0].checksums.pop_back();
    write_index_file(directory_, {{"set-0", files[0]}});
  });
  EXPECT_EQ(share_index(paths_, mpi_).at(paths_[0]).offsets.size(), 9u);
  const Dataset dataset =
      open_records(paths_, options_.data.record_form, RecordUse::training, {.cache = CacheMode::none}, mpi_);
  EXPECT_EQ(dataset.size(), 9u + 11 + 12 + 13 + 14);
}

TEST_F(RecordsTest, ADamagedFileEndsAllRanksWithItsName) {
  on_first([&] { write_text(paths_[3], mnist_records(13).substr(0, 1000)); });
  const Failure failure = failure_of_run([&] { share_index(paths_, mpi_); });
  EXPECT_EQ(failure.code, ExitCode::data);
  expect_reported(failure, "set-3: record 1 at byte");
}

TEST_F(RecordsTest, RanksThatSeeOtherFilesAreRefused) {
  std::vector<std::string> paths = paths_;
  if (mpi_.rank() > 0 && mpi_.rank() == mpi_.size() - 1) paths[1] = paths[2];
  const Failure failure = failure_of_run(
      [&] { open_records(paths, options_.data.record_form, RecordUse::training, {.cache = CacheMode::none}, mpi_); });
  EXPECT_EQ(failure.code, mpi_.size() == 1 ? ExitCode::done : ExitCode::usage);
  expect_reported(failure, "ranks disagree on checksum of the data files' names");
}

TEST_F(RecordsTest, FilesAreCopiedOnceAndAgainWhereTheyHaveChanged) {
  const StagingSettings settings{.directory = directory_ / "disk"};
  const std::vector<std::string> staged = stage_files(paths_, settings, mpi_);
  ASSERT_EQ(staged.size(), paths_.size());
  std::vector<ino_t> numbers;
  // Keeps the files open, so that no new file gets the inode number of an old file.
  std::vector<std::ifstream> open_files;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    EXPECT_EQ(staged[i], (directory_ / "disk").string() + paths_[i]);
    EXPECT_EQ(read_text(staged[i]), read_text(paths_[i]));
    numbers.push_back(number_of(staged[i]));
    open_files.emplace_back(staged[i]);
  }
  mpi_.barrier();
  on_first([&] {
    write_text(paths_[2], mnist_records(2));
    std::string same_size = read_text(paths_[3]);
    same_size[20] ^= 1;
    write_text(paths_[3], same_size);
  });
  EXPECT_EQ(stage_files(paths_, settings, mpi_), staged);
  for (std::size_t i = 0; i < staged.size(); ++i) {
    EXPECT_EQ(read_text(staged[i]), read_text(paths_[i]));
    EXPECT_EQ(stamp_of(staged[i]), stamp_of(paths_[i]));
    EXPECT_EQ(number_of(staged[i]) == numbers[i], i != 2 && i != 3);
  }
}

TEST_F(RecordsTest, FilesThatCannotBeCopiedAreReportedBeforeAnyCopy) {
  std::vector<std::string> paths = paths_;
  paths.push_back((directory_ / "none").string());
  Failure failure = failure_to_stage(paths);
  EXPECT_EQ(failure.code, ExitCode::no_input);
  expect_reported(failure, "none: no such file");
  // Makes a sparse file that is larger than the free space of the disk.
  on_first([&] {
    write_text(paths.back(), "");
    std::filesystem::resize_file(paths.back(), std::filesystem::space(directory_).available + (1u << 30));
  });
  failure = failure_to_stage(paths);
  EXPECT_EQ(failure.code, ExitCode::io);
  expect_reported(failure, " GB must be copied, and ");
  mpi_.barrier();
  for (const std::string& path : paths_) EXPECT_FALSE(std::filesystem::exists((directory_ / "disk").string() + path));
}

TEST_F(RecordsTest, ARunOnCopiesEndsAsOneOnTheFiles) {
  options_.data.files = {(directory_ / "set-*").string()};
  options_.data.eval_files = {(directory_ / "test").string()};
  options_.data.cache = CacheMode::none;
  train();
  const CheckpointState expected = saved(12);
  options_.data.stage = (directory_ / "disk").string();
  options_.checkpoint.train_dir = (directory_ / "staged").string();
  train();
  mpi_.barrier();
  EXPECT_TRUE(saved(12).variables == expected.variables);
  for (const std::string& path : paths_) EXPECT_TRUE(std::filesystem::exists(options_.data.stage + path));
  EXPECT_TRUE(std::filesystem::exists(options_.data.stage + options_.data.eval_files.front()));
}

TEST_F(RecordsTest, TheCopiesAreRead) {
  const RecordOptions options{.cache = CacheMode::none, .stage = (directory_ / "disk").string()};
  open_records(paths_, options_.data.record_form, RecordUse::training, options, mpi_);
  mpi_.barrier();
  on_first([&] {  // changes a copy, but not its size and time
    const std::string copy = options.stage + paths_[1];
    const auto time = std::filesystem::last_write_time(copy);
    std::string bytes = read_text(copy);
    bytes[100] ^= 1;
    write_text(copy, bytes);
    std::filesystem::last_write_time(copy, time);
  });
  const Dataset dataset = open_records(paths_, options_.data.record_form, RecordUse::training, options, mpi_);
  std::vector<std::uint8_t> image(dataset.image_bytes());
  read_class(dataset, 0, 0, image);
  EXPECT_THAT(failure_of_run([&] { read_class(dataset, 10, 10, image); }).text,
              HasSubstr(options.stage + paths_[1] + ": record 0"));
}

TEST_F(RecordsTest, CopiesAreMadeOnlyInDirectoriesOfThisUser) {
  const std::filesystem::path disk = directory_ / "disk";
  const auto expect_refused = [&](const std::string& cause) {
    const Failure failure = failure_to_stage(paths_);
    EXPECT_EQ(failure.code, ExitCode::usage);
    expect_reported(failure, cause);
    mpi_.barrier();
  };
  stage_files(paths_, {.directory = disk}, mpi_);
  EXPECT_EQ(std::filesystem::status(disk).permissions(), std::filesystem::perms::owner_all);
  mpi_.barrier();
  const std::filesystem::path inner = std::filesystem::path(disk.string() + paths_[0]).parent_path();
  on_first([&] { chmod(inner.c_str(), 0777); });
  expect_refused(fmt::format("other users can write there: chmod go-w {}, or name another directory", inner.string()));
  on_first([&] { std::system(("chmod go-w " + inner.string()).c_str()); });
  stage_files(paths_, {.directory = disk}, mpi_);
  mpi_.barrier();
  on_first([&] {
    std::filesystem::rename(disk, directory_ / "other");
    std::filesystem::create_directory_symlink("other", disk);
  });
  expect_refused("disk: is a link or no directory: remove it");
  if (geteuid() != 0) return;  // only root can make another user the owner
  on_first([&] {
    std::filesystem::remove(disk);
    std::filesystem::create_directory(disk);
    static_cast<void>(!chown(disk.c_str(), 12345, 12345));
  });
  expect_refused("disk: belongs to user 12345: remove it");
}

TEST_F(RecordsTest, ACopyWithOtherRecordsThanTheIndexIsMadeAgain) {
  const std::string stage = (directory_ / "disk").string(), copy = stage + paths_[1];
  on_first([&] { write_index_file(directory_, {{"set-1", index_files({paths_[1]}, [](std::size_t) {}).front()}}); });
  stage_files(paths_, {.directory = stage}, mpi_);
  mpi_.barrier();
  on_first([&] {  // exchanges the records of a copy, but does not change its size and time
    const auto time = std::filesystem::last_write_time(copy);
    std::string records = read_text(copy);
    const std::uint64_t second = index_files({paths_[1]}, [](std::size_t) {}).front().offsets[1];
    std::rotate(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(second), records.end());
    ASSERT_NE(records, read_text(paths_[1]));
    write_text(copy, records);
    std::filesystem::last_write_time(copy, time);
  });
  stage_files(paths_, {.directory = stage}, mpi_);
  mpi_.barrier();
  EXPECT_EQ(read_text(copy), read_text(paths_[1]));
}

TEST_F(RecordsTest, AHostNeedsTheFilesOfItsRanks) {
  const std::vector<int> hosts = {0, 0, 1, 1};  // the host of each rank
  using Files = std::vector<std::size_t>;
  EXPECT_EQ(files_needed(10, true, hosts, 0), (Files{0, 1, 2, 3, 4}));
  EXPECT_EQ(files_needed(10, true, hosts, 1), (Files{5, 6, 7, 8, 9}));
  EXPECT_EQ(files_needed(3, false, hosts, 1), (Files{0, 1, 2}));
  EXPECT_EQ(files_needed(6, true, {0, 1, 0}, 0), (Files{0, 1, 4, 5}));
}

TEST_F(RecordsTest, HalfCopiesOfKilledRunsAreRemovedAndThoseOfOthersNot) {
  const std::string half = (directory_ / "disk").string() + paths_[0] + ".123.tmp";
  on_first([&] {
    std::filesystem::create_directories(std::filesystem::path(half).parent_path());
    write_text(half, "complete, with the time of its source, but not yet under its name");
    std::filesystem::last_write_time(half, std::filesystem::file_time_type::clock::now() - std::chrono::hours(200));
  });
  StagingSettings settings{.directory = directory_ / "disk"};
  stage_files(paths_, settings, mpi_);
  EXPECT_TRUE(std::filesystem::exists(half));
  mpi_.barrier();
  settings.age_of_remains = std::chrono::seconds(0);
  stage_files(paths_, settings, mpi_);
  EXPECT_FALSE(std::filesystem::exists(half));
}

TEST_F(RecordsTest, ASetReadInWindowsIsTrainedOnAsFromMemory) {
  options_.data.files = {(directory_ / "set-*").string()};
  std::vector<CheckpointState> ends;
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    options_.data.cache = cache;
    options_.data.shuffle_window = 32;
    options_.checkpoint.train_dir = (directory_ / fmt::format("run-{}", ends.size())).string();
    train();
    mpi_.barrier();
    ends.push_back(saved(12));
  }
  options_.data.shuffle_window = 0;
  options_.checkpoint.train_dir = (directory_ / "whole").string();
  train();
  mpi_.barrier();
  EXPECT_TRUE(ends[0].variables == ends[1].variables);
  EXPECT_FALSE(ends[0].variables == saved(12).variables);
}

/// Writes a second dataset, with the records in the order in which the towers use them with --sharding file. An
/// unshuffled run on the second dataset must have the same result as a run with --sharding file.
TEST_F(RecordsTest, WithShardingByFileEachRankTrainsOnItsOwnFiles) {
  on_first([&] {
    std::vector<std::vector<std::string>> records;  // the records of each tower
    for (int tower = 0; tower < mpi_.size(); ++tower) {
      const FileShare share = file_share(paths_.size(), tower, mpi_.size());
      records.emplace_back();
      for (std::size_t i = share.begin; i < share.end; ++i) {
        RecordReader reader(paths_[i]);
        for (Record record; reader.next(record);) records.back().emplace_back(record.data.begin(), record.data.end());
      }
    }
    std::string expected;
    for (std::size_t step = 0; step < 12; ++step) {
      for (const std::vector<std::string>& own : records) {
        for (std::size_t i = 0; i < 4; ++i) append_record(expected, own[(4 * step + i) % own.size()]);
      }
    }
    write_text(directory_ / "expected", expected);
  });
  options_.data.shuffle = false;
  options_.data.files = {(directory_ / "expected").string()};
  train();
  options_.data.files = paths_;
  options_.data.sharding = Sharding::file;
  options_.checkpoint.train_dir = (directory_ / "by-file").string();
  train();
  mpi_.barrier();
  const CheckpointState by_file = saved(12);
  options_.checkpoint.train_dir = (directory_ / "run").string();
  EXPECT_TRUE(by_file.variables == saved(12).variables);
}

TEST_F(RecordsTest, WithShardingByFileEpochsCountTheRecordsOfAllFiles) {
  options_.data.files = paths_;
  const auto records =
      static_cast<std::int64_t>(Dataset::open(paths_, grey_records(options_.data.record_form.schema)).size());
  options_.data.sharding = Sharding::file;
  options_.optimizer.epochs = 1.0;
  EXPECT_EQ(train(), ExitCode::done);
  EXPECT_EQ(list_checkpoints(train_dir()).front(), (records + 4 * mpi_.size() - 1) / (4 * mpi_.size()));
}

/// The run resumes at a stream position that is no multiple of its new global batch.
TEST_F(RecordsTest, WithShardingByFileARunResumesWithAnotherBatch) {
  options_.data.files = paths_;
  options_.data.sharding = Sharding::file;
  options_.data.shuffle_window = 8;
  EXPECT_EQ(train(), ExitCode::done);
  mpi_.barrier();
  options_.data.batch_size = 5;
  options_.optimizer.max_steps = 60;
  EXPECT_EQ(train(), ExitCode::done);
}

TEST_F(RecordsTest, MoreRanksThanFilesCannotShareThem) {
  options_.data.files = {paths_[0]};
  options_.data.sharding = Sharding::file;
  const Failure failure = this->failure(options_);
  EXPECT_EQ(failure.code, mpi_.size() == 1 ? ExitCode::done : ExitCode::usage);
  expect_reported(failure, "--sharding file: 1 files are not enough for");
}

TEST_F(RecordsTest, TooLittleMemoryForDecodingAheadIsRejected) {
  options_.data.cache = CacheMode::none;
  options_.data.prefetch_bytes = 2 * 4 * 784 - 1;
  const Failure failure = this->failure(options_);
  EXPECT_EQ(failure.code, ExitCode::usage);
  expect_reported(failure, "--prefetch-bytes 6271: two batches of decoded images have 6272 bytes");
  TrainOptions large = options_;
  large.data.prefetch_bytes = std::int64_t{1} << 50;
  expect_reported(this->failure(large), " bytes of memory for ");
  options_.data.prefetch_bytes += 1;
  EXPECT_EQ(train(), ExitCode::done);
}

}  // namespace
}  // namespace carillon::testing
