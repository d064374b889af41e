#include "src/data/decode/dataset_info.h"

#include <gmock/gmock.h>

#include "tests/data/dataset_infos.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

DatasetInfo with_classes(std::size_t count, std::size_t name_bytes) {
  DatasetInfo info;
  for (std::size_t i = 0; i < count; ++i) info.classes.push_back(fmt::format("{:0{}}", i, name_bytes));
  return info;
}

TEST(DatasetInfo, OfAsManyClassesAsPossibleIsReadBack) {
  const testing::TemporaryDirectory directory;
  const DatasetInfo info = with_classes(max_classes, 600);
  write_dataset_info(directory.path(), info);
  EXPECT_TRUE(read_dataset_info(directory.path()) == info);
}

TEST(DatasetInfo, ThatCouldNotBeReadIsNotWritten) {
  const testing::TemporaryDirectory directory;
  DatasetInfo equal_names;
  equal_names.classes = {"a\xff", "a\xfe"};  // these two names become the same name in UTF-8
  for (const DatasetInfo& info :
       {DatasetInfo(), with_classes(max_classes + 1, 6), with_classes(max_classes, 700), equal_names}) {
    EXPECT_EQ(testing::error_of([&] { check_dataset_info(info); }).code(), ExitCode::data);
    EXPECT_EQ(testing::error_of([&] { write_dataset_info(directory.path(), info); }).code(), ExitCode::data);
  }
  EXPECT_EQ(testing::entry_count(directory.path()), 0u);
}

TEST(DatasetInfo, OfOtherTasksIsReadBack) {
  const testing::TemporaryDirectory directory;
  DatasetInfo labels = with_classes(3, 2), numbers = with_classes(2, 2);
  labels.target = TargetKind::labels;
  numbers.target = TargetKind::numbers;
  numbers.keys.label = numbers_key;
  numbers.scales = {{.mean = 0.1, .deviation = 1e-7}, {.mean = -1.0 / 3.0, .deviation = 12.5}};
  for (const DatasetInfo& info : {labels, numbers}) {
    write_dataset_info(directory.path(), info);
    EXPECT_TRUE(read_dataset_info(directory.path()) == info);
  }
}

TEST(DatasetInfo, OfARegressionRequiresOneScaleForEachNumber) {
  DatasetInfo info = with_classes(2, 2);
  info.target = TargetKind::numbers;
  for (const std::vector<NumberScale>& scales :
       {std::vector<NumberScale>(1), std::vector<NumberScale>(3), {NumberScale{}, NumberScale{.deviation = 0.0}}}) {
    info.scales = scales;
    EXPECT_EQ(testing::error_of([&] { check_dataset_info(info); }).code(), ExitCode::data);
  }
}

}  // namespace
}  // namespace carillon
