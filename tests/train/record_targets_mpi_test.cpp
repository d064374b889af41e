#include "src/train/input/records.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "src/tasks/classification.h"
#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RecordTargetsTest : public RunTest {
 protected:
  Dataset open(const std::string& name, CacheMode cache) const {
    const std::vector<std::string> paths{(directory_ / name).string()};
    return Dataset::open(paths, mnist_decoder, cache);
  }
  /// Changes one byte in the image of each record in `records`, which are indices in the file "train".
  void damage(const std::vector<int>& records) const {
    if (mpi_.rank() == 0) {
      std::string bytes = read_text(directory_ / "train");
      const std::size_t record_bytes = bytes.size() / 60;
      for (const int i : records) bytes[record_bytes * static_cast<std::size_t>(i) + 100] ^= 1;
      write_text(directory_ / "damaged", bytes);
    }
    mpi_.barrier();
  }
  static std::vector<std::int32_t> labels_of(const RecordTargets& found) {
    std::vector<std::int32_t> labels(found.targets.size() / sizeof(std::int32_t));
    std::memcpy(labels.data(), found.targets.data(), found.targets.size());
    return labels;
  }
  static std::vector<std::uint32_t> all_records() {
    std::vector<std::uint32_t> records(60);
    std::iota(records.begin(), records.end(), 0u);
    return records;
  }
};

TEST_F(RecordTargetsTest, AreThoseOfAllRecordsInOrder) {
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Dataset dataset = open("train", cache);
    for (const int threads : {1, 3, 100}) {
      const RecordTargets found = read_targets(dataset, {.thread_count = threads}, mpi_);
      EXPECT_EQ(found.records, all_records());
      const std::vector<std::int32_t> labels = labels_of(found);
      ASSERT_EQ(labels.size(), 60u);
      for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(labels[i], static_cast<std::int32_t>(i % 10));
    }
  }
}

TEST_F(RecordTargetsTest, OfSharesAreReadByTheirRanks) {
  const Dataset dataset = open("train", CacheMode::none);
  std::vector<std::uint64_t> shares{0};
  for (int rank = 1; rank < mpi_.size(); ++rank) shares.push_back(50 + static_cast<std::uint64_t>(rank));
  EXPECT_EQ(read_targets(dataset, {.shares = shares}, mpi_).records, all_records());
}

TEST_F(RecordTargetsTest, NameTheFirstDamagedRecord) {
  damage({55, 7, 23});
  const Dataset dataset = open("damaged", CacheMode::none);
  for (const int threads : {1, 4}) {
    const Failure failure = failure_of_run([&] { read_targets(dataset, {.thread_count = threads}, mpi_); });
    EXPECT_EQ(failure.code, ExitCode::data);
    if (mpi_.rank() == 0) {
      EXPECT_THAT(failure.text, HasSubstr("damaged: record 7 at byte"));
    }
  }
}

TEST_F(RecordTargetsTest, LeaveOutDamagedRecordsThatAreSkipped) {
  damage({0, 7, 23, 59});
  Dataset dataset = open("damaged", CacheMode::none);
  std::vector<std::string> warnings;
  dataset.skip_damaged([&](const std::string& what) { warnings.push_back(what); });
  const RecordTargets found = read_targets(dataset, {}, mpi_);
  std::vector<std::uint32_t> expected = all_records();
  std::erase_if(expected, [](std::uint32_t i) { return i == 0 || i == 7 || i == 23 || i == 59; });
  EXPECT_EQ(found.records, expected);
  EXPECT_EQ(labels_of(found)[6], 8) << "the label of record 8";
  EXPECT_EQ(warnings.size(), dataset.skipped_count());
  if (mpi_.size() == 1) {
    EXPECT_EQ(warnings.size(), 4u);
  }
}

TEST_F(RecordTargetsTest, AreGroupedByClass) {
  const RecordTargets found = read_targets(open("train", CacheMode::memory), {}, mpi_);
  const auto groups = records_by_group(found, classification_task({.classes = 12}).group_of);
  ASSERT_EQ(groups->size(), 10u) << "classes without records are no groups";
  EXPECT_THAT((*groups)[3], ElementsAre(3, 13, 23, 33, 43, 53));
}

}  // namespace
}  // namespace carillon::testing
