#include "src/data/decode/shown_records.h"

#include <gmock/gmock.h>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> files{sample_path("imagenet.tfrecord"), sample_path("cifar10.tfrecord"),
                                     sample_path("imagenet.tfrecord")};

TEST(PictureNames, AreThoseOfTheRecordsInTheirFiles) {
  const std::vector<std::size_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::string> names = picture_names(files, all);
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 8),
              ElementsAre("n01440760_0.JPEG", "n01440761_1.JPEG", "n01440762_2.JPEG", "n01440763_3.JPEG",
                          "n01440760_4.JPEG", "n01440761_5.JPEG", "n01440762_6.JPEG", "n01440763_7.JPEG"));
  EXPECT_EQ(names[8], "") << "a record without the feature";
}

TEST(PictureNames, LeaveOutOtherRecords) {
  std::size_t cifar = 0;
  RecordReader reader(files[1]);
  for (Record record; reader.next(record);) ++cifar;
  int calls = 0;
  const std::vector<std::size_t> some{2, 8 + cifar + 7, 1'000'000};
  EXPECT_THAT(picture_names(files, some, [&] { ++calls; }), ElementsAre("n01440762_2.JPEG", "n01440763_7.JPEG", ""));
  EXPECT_GE(calls, 16);
  EXPECT_THAT(picture_names(files, {}), ElementsAre());
}

}  // namespace
}  // namespace carillon
