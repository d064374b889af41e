// Tests that run `tfrecord_convert images --targets` as a user does.
#include "src/data/convert/picture_list.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <map>

#include "tests/data/picture_programs.h"

namespace carillon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TargetListTest : public PictureProgramsTest {
 protected:
  /// Writes the pictures 0.jpg to (count - 1).jpg.
  void put_pictures(int count) const {
    for (int i = 0; i < count; ++i) put(fmt::format("in/{}.jpg", i), picture("colour.jpg"));
  }
  std::string convert_targets(const std::string& csv, const std::string& more = "") const {
    return convert("--targets " + write("targets.csv", csv) + " " + more);
  }
  void expect_refused(const std::string& csv, ExitCode code, const std::string& text,
                      const std::string& more = "") const {
    expect_failure(convert_targets(csv, more), code, text);
    EXPECT_FALSE(std::filesystem::exists(path("out/records.json")));
  }

  using Features = std::map<std::string, proto::Feature>;
  /// Returns the features of all records of a split. The keys are the names of the pictures.
  std::map<std::string, Features> features(const std::string& split) const {
    std::map<std::string, Features> all;
    RecordReader reader(path("out/" + split + "-00000-of-00001.tfrecord"));
    for (Record record; reader.next(record);) {
      proto::Example example;
      EXPECT_TRUE(example.ParseFromArray(record.data.data(), static_cast<int>(record.data.size())));
      const auto& map = example.features().feature();
      const Features of_record(map.begin(), map.end());
      all[of_record.at("image/filename").bytes_list().value(0)] = of_record;
    }
    return all;
  }
  static std::vector<std::int64_t> integers(const Features& from) {
    const auto& list = from.at("image/class/label").int64_list().value();
    return {list.begin(), list.end()};
  }
  static std::vector<float> numbers(const Features& from) {
    const auto& list = from.at(numbers_key).float_list().value();
    return {list.begin(), list.end()};
  }
};

TEST_F(TargetListTest, AColumnOfMostlyNumbersIsAnError) {
  put_pictures(4);
  expect_one_line(run(convert_targets("path,age\n0.jpg,1\n1.jpg,unknown\n2.jpg,3\n3.jpg,4\n")), ExitCode::data,
                  "line 3: 'unknown' is no number, and most cells of the column are numbers");
}

TEST_F(TargetListTest, AHeaderIsRequired) {
  put_pictures(2);
  expect_one_line(run(convert_targets("0.jpg,1\n1.jpg,2\n")), ExitCode::data, "line 1: begins with the picture 0.jpg");
}

TEST_F(TargetListTest, PicturesThatAreNotListedAndEqualNumbersAreNoted) {
  put_pictures(4);
  const Outcome outcome =
      run(convert_targets("path,age,b,c,d,e,f,g,h,i,j,k,l,m\n0.jpg,1.5,2,3,4,5,6,7,8,9,10,11,12,1\n"
                          "1.jpg,1.5,2,3,4,5,6,7,8,9,10,11,12,2\n"
                          "2.jpg,1.5,2,3,4,5,6,7,8,9,10,11,12,3\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1 of the 4 pictures in"));
  EXPECT_THAT(outcome.output, HasSubstr("equal in all pictures: age (always 1.5), b (always 2), c (always 3), "
                                        "d (always 4), e (always 5), f (always 6), g (always 7), h (always 8), "
                                        "i (always 9), j (always 10) and 2 more\n"));
}

TEST_F(TargetListTest, LabelsAreStoredByTheirNumbersFromOne) {
  put_pictures(4);
  const Outcome outcome = run(convert_targets("path,labels\n0.jpg,sea;boat\n1.jpg,\n2.jpg, boat ; boat\n3.jpg,tree\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("4 pictures with 3 labels (multilabel)"));
  EXPECT_THAT(outcome.output, HasSubstr("\n3 labels\n"));
  const auto info = read_dataset_info(path("out"));
  EXPECT_EQ(info->target, TargetKind::labels);
  EXPECT_THAT(info->classes, ElementsAre("boat", "sea", "tree"));
  auto stored = features("train");
  EXPECT_THAT(integers(stored["0.jpg"]), ElementsAre(2, 1));
  EXPECT_THAT(integers(stored["1.jpg"]), ElementsAre());
  EXPECT_THAT(integers(stored["2.jpg"]), ElementsAre(1));
  EXPECT_THAT(integers(stored["3.jpg"]), ElementsAre(3));
  EXPECT_EQ(stored["0.jpg"].at("image/class/text").bytes_list().value(1), "boat");
}

TEST_F(TargetListTest, NumbersAreStoredWithTheMeanAndDeviationOfTheTrainingRecords) {
  put_pictures(4);
  const std::string csv = "path,age,size\n0.jpg,1,5\n1.jpg,2.5,5\n2.jpg, +3e0 ,5\n3.jpg,-4,5\n";
  EXPECT_EQ(run(convert_targets(csv)).code, 0);
  const auto info = read_dataset_info(path("out"));
  EXPECT_EQ(info->target, TargetKind::numbers);
  EXPECT_THAT(info->classes, ElementsAre("age", "size"));
  EXPECT_DOUBLE_EQ(info->scales.at(0).mean, 0.625);
  EXPECT_DOUBLE_EQ(info->scales.at(0).deviation, std::sqrt(32.25 / 4 - 0.625 * 0.625));
  EXPECT_EQ(info->scales.at(1), (NumberScale{.mean = 5.0, .deviation = 1.0}));
  auto stored = features("train");
  EXPECT_THAT(numbers(stored["1.jpg"]), ElementsAre(2.5f, 5.0f));
  EXPECT_THAT(numbers(stored["3.jpg"]), ElementsAre(-4.0f, 5.0f));
}

TEST_F(TargetListTest, ALaterSplitKeepsTheScalesOfTheTrainingRecords) {
  put_pictures(4);
  EXPECT_EQ(run(convert_targets("path,age\n0.jpg,1\n1.jpg,3\n")).code, 0);
  EXPECT_EQ(run(convert_targets("path,age\n2.jpg,100\n3.jpg,300\n", "--split validation")).code, 0);
  EXPECT_THAT(read_dataset_info(path("out"))->scales, ElementsAre(NumberScale{.mean = 2.0, .deviation = 1.0}));
  expect_failure(convert_targets("path,height\n2.jpg,1\n", "--split test"), ExitCode::data,
                 "the columns height are not those of records.json in the output, age");
}

TEST_F(TargetListTest, OneNameForEachPictureIsAClass) {
  put_pictures(3);
  EXPECT_EQ(run(convert_targets("path,class\n0.jpg,b\n1.jpg,a\n2.jpg,b\n")).code, 0);
  EXPECT_EQ(read_dataset_info(path("out"))->target, TargetKind::class_index);
  EXPECT_THAT(integers(features("train")["0.jpg"]), ElementsAre(2));
}

TEST_F(TargetListTest, TheTaskMayBeGiven) {
  put_pictures(3);
  const std::string csv = "path,year\n0.jpg,2001\n1.jpg,2002\n2.jpg,2001\n";
  EXPECT_EQ(run(convert_targets(csv, "--task multilabel")).code, 0);
  const auto info = read_dataset_info(path("out"));
  EXPECT_EQ(info->target, TargetKind::labels);
  EXPECT_THAT(info->classes, ElementsAre("2001", "2002"));
}

TEST_F(TargetListTest, WholeNumbersThatRepeatAreNotGuessed) {
  put_pictures(6);
  const std::string csv = "id_code,diagnosis\n0.jpg,0\n1.jpg,2.0\n2.jpg,1\n3.jpg,0\n4.jpg,1\n5.jpg,2\n";
  expect_refused(csv, ExitCode::data,
                 "targets.csv: the column diagnosis has 3 whole numbers in 6 pictures: set --task classification if "
                 "they are classes, or --task regression if they are quantities");
  EXPECT_EQ(run(convert_targets(csv, "--task classification --overwrite")).code, 0);
  EXPECT_THAT(read_dataset_info(path("out"))->classes, ElementsAre("0", "1", "2", "2.0"));
  std::filesystem::remove_all(path("out"));
  EXPECT_EQ(run(convert_targets(csv, "--task regression")).code, 0);
  EXPECT_THAT(numbers(features("train")["5.jpg"]), ElementsAre(2.0f));
  std::filesystem::remove_all(path("out"));
  const std::string attributes = "path,male,young\n0.jpg,-1,1\n1.jpg,1,1\n2.jpg,1,-1\n3.jpg,-1,-1\n";
  expect_refused(attributes, ExitCode::data, "targets.csv: the columns have only the whole numbers -1 to 1: write 1");
  EXPECT_EQ(run(convert_targets(attributes, "--task regression")).code, 0);
}

TEST_F(TargetListTest, NumbersThatCannotBeClassesAreARegression) {
  put_pictures(4);
  for (const char* const csv :
       {"path,age\n0.jpg,0\n1.jpg,1\n2.jpg,2\n3.jpg,5\n",    // no number occurs twice
        "path,age\n0.jpg,0\n1.jpg,0\n2.jpg,1\n3.jpg,0.5\n",  // one number is a fraction
        // Most of the numbers are different and far apart.
        "path,age\n0.jpg,0\n1.jpg,0\n2.jpg,100\n3.jpg,7\n", "path,x,y\n0.jpg,0,7\n1.jpg,3,7\n2.jpg,3,3\n3.jpg,0,0\n"}) {
    EXPECT_EQ(run(convert_targets(csv)).code, 0) << csv;
    EXPECT_EQ(read_dataset_info(path("out"))->target, TargetKind::numbers);
    std::filesystem::remove_all(path("out"));
  }
}

TEST_F(TargetListTest, ColumnsOfZeroAndOneAreClassesOrLabels) {
  put_pictures(4);
  const std::string one_hot = "image,cat,bee,ant\n0.jpg,1,0,0\n1.jpg,0.0,1.0,0.0\n2.jpg,False,true,0\n";
  const Outcome outcome = run(convert_targets(one_hot));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("3 pictures with 3 classes (classification; each column of 0 and 1 is one of them)"));
  EXPECT_THAT(read_dataset_info(path("out"))->classes, ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(integers(features("train")["0.jpg"]), ElementsAre(3));
  EXPECT_THAT(integers(features("train")["2.jpg"]), ElementsAre(2));
  expect_failure(convert_targets("image,dog,bee\n3.jpg,1,0\n", "--split validation"), ExitCode::data,
                 "line 1: the class 'dog' is not among the 3");
  std::filesystem::remove_all(path("out"));
  const std::string several = "image,sea,boat\n0.jpg,1,1\n1.jpg,0,0\n2.jpg,1,0\n";
  EXPECT_THAT(run(convert_targets(several)).output, HasSubstr("2 labels (multilabel;"));
  EXPECT_THAT(integers(features("train")["0.jpg"]), ElementsAre(2, 1));
  EXPECT_THAT(integers(features("train")["1.jpg"]), ElementsAre());
  std::filesystem::remove_all(path("out"));
  expect_refused(several, ExitCode::data, "line 2: 2 of the columns are 1, and a class requires one",
                 "--task classification");
  EXPECT_EQ(run(convert_targets(several, "--task regression")).code, 0);
  EXPECT_THAT(numbers(features("train")["2.jpg"]), ElementsAre(1.0f, 0.0f));
}

TEST_F(TargetListTest, NumbersThatFloat32RoundsAreReported) {
  put_pictures(3);
  const Outcome outcome = run(convert_targets("path,time\n0.jpg,16777216\n1.jpg,16777217\n2.jpg,1e-400\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("targets.csv: line 3: 16777217 becomes 16777216; numbers are stored as float32"));
  EXPECT_THAT(numbers(features("train")["2.jpg"]), ElementsAre(0.0f));
}

TEST_F(TargetListTest, ManyLabelsOfAPictureTakeLinearTime) {
  put_pictures(1);
  std::string cell = "0";
  for (int i = 1; i < 60'000; ++i) cell += fmt::format(";{}", i);
  const auto start = std::chrono::steady_clock::now();
  const PictureList list = list_targets(write("targets.csv", "path,labels\n0.jpg," + cell + "\n"), path("in"), {}, {});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(list.pictures.at(0).labels.size(), 60'000u);
}

TEST_F(TargetListTest, AShareForValidationIsTakenFromAllPictures) {
  put_pictures(20);
  std::string csv = "path,age\n";
  for (int i = 0; i < 20; ++i) csv += fmt::format("{}.jpg,{}\n", i, i);
  EXPECT_EQ(run(convert_targets(csv, "--validation-share 0.25")).code, 0);
  EXPECT_EQ(features("train").size(), 15u);
  EXPECT_EQ(features("validation").size(), 5u);
}

TEST_F(TargetListTest, AFaultIsNamedWithItsLine) {
  put_pictures(2);
  expect_refused("path,age\n0.jpg,1\n5.jpg,2\n", ExitCode::data, "targets.csv: line 3: there is no picture");
  expect_refused("path,age\n0.jpg,1\n./0.jpg,2\n", ExitCode::data,
                 "targets.csv: line 3: the picture ./0.jpg occurs twice");
  expect_refused("path,age,size\n0.jpg,1,2\n1.jpg,x,2\n", ExitCode::data,
                 "targets.csv: line 3: 'x' in column age is not a finite number");
  expect_refused("path,age,size\n0.jpg,1,2\n1.jpg,1e99,2\n", ExitCode::data,
                 "'1e99' in column age is not a finite number");
  expect_refused("path,age,age\n0.jpg,1,2\n", ExitCode::data, "targets.csv: line 1: two columns have the same name");
  expect_refused("path\n0.jpg\n", ExitCode::data, "targets.csv: line 1: requires a column of paths and one of targets");
  expect_refused("path,labels\n0.jpg,\n1.jpg,\n", ExitCode::data, "targets.csv: no picture has a label");
  expect_refused("path,class\n0.jpg,a;b\n1.jpg,b\n", ExitCode::data, "line 2: 'a;b' is not one class",
                 "--task classification");
  expect_refused("path,a,b\n0.jpg,1,2\n", ExitCode::data, "line 1: the task multilabel requires two columns",
                 "--task multilabel");
  expect_refused("path,age\n", ExitCode::no_input, "targets.csv: lists no picture");
}

TEST_F(TargetListTest, LabelsOfALaterSplitMustBeThoseOfTheFirst) {
  put_pictures(3);
  EXPECT_EQ(run(convert_targets("path,labels\n0.jpg,a;b\n1.jpg,b\n")).code, 0);
  expect_failure(convert_targets("path,labels\n2.jpg,c\n", "--split validation"), ExitCode::data,
                 "targets.csv: line 2: the class 'c' is not among the 2 of records.json in the output");
  expect_failure(convert_targets("path,labels\n2.jpg,1\n", "--split validation --task regression"), ExitCode::usage,
                 "the task is regression, but records.json in the output has the task multilabel");
  put("in/a/0.jpg", picture("colour.jpg"));
  put("in/b/0.jpg", picture("colour.jpg"));
  expect_failure(convert("--split validation"), ExitCode::usage, "has the task multilabel, which requires --targets");
}

TEST_F(TargetListTest, OptionsThatDoNotFitAreRefused) {
  put_pictures(1);
  expect_failure(convert("--task regression"), ExitCode::usage, "--task requires --targets");
  expect_failure(convert_targets("path,age\n0.jpg,1\n", "--task ranking"), ExitCode::usage, "--task 'ranking'");
  expect_failure("tfrecord_convert mnist --input . --output " + path("out") + " --targets x.csv", ExitCode::usage,
                 "--targets requires the format images");
  expect_failure("tfrecord_convert images --input " + path("in/0.jpg") + " --targets " + path("targets.csv") +
                     " --output " + path("out"),
                 ExitCode::no_input, "with --targets, --input is the folder of the pictures");
}

}  // namespace
}  // namespace carillon
