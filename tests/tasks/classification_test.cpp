#include "src/tasks/classification.h"

#include <gmock/gmock.h>

#include <array>

#include "carillon/core/error.h"
#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

TEST(ClassWeights, CountTheRecordsOfEachClass) {
  const std::array<std::int32_t, 6> labels{2, 0, 2, 2, 0, 4};
  EXPECT_THAT(class_counts(std::as_bytes(std::span(labels)), 5), ElementsAre(2, 0, 3, 0, 1));
}

// scikit-learn: compute_class_weight("balanced", classes=[0, 1, 2], y=[0] * 2 + [1] * 3 + [2] * 7) is
// [2, 1.3333, 0.5714].
TEST(ClassWeights, BalancedAreThoseOfScikitLearn) {
  EXPECT_THAT(balanced_class_weights(std::array<std::int64_t, 3>{2, 3, 7}),
              ElementsAre(FloatEq(2.0f), FloatEq(4.0f / 3.0f), FloatEq(4.0f / 7.0f)));
}

double mean_over_records(const std::vector<float>& weights, std::span<const std::int64_t> counts) {
  double sum = 0.0, records = 0.0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    sum += weights[c] * static_cast<double>(counts[c]);
    records += static_cast<double>(counts[c]);
  }
  return sum / records;
}

TEST(ClassWeights, HaveMeanOneOverTheRecords) {
  const std::array<std::int64_t, 4> counts{2, 0, 7, 91};
  EXPECT_NEAR(mean_over_records(balanced_class_weights(counts), counts), 1.0, 1e-6);
  EXPECT_EQ(balanced_class_weights(counts)[1], 0.0f) << "a class without records";
  const std::vector<double> given{8.0, 3.0, 0.0, 1.0};
  const std::vector<float> scaled = scaled_class_weights(given, counts);
  EXPECT_NEAR(mean_over_records(scaled, counts), 1.0, 1e-6);
  for (std::size_t c = 0; c < given.size(); ++c) EXPECT_FLOAT_EQ(scaled[c] / scaled[3], static_cast<float>(given[c]));
}

TEST(ClassWeights, ThatAreZeroForAllRecordsAreRefused) {
  EXPECT_THROW(scaled_class_weights(std::array{0.0, 1.0}, std::array<std::int64_t, 2>{5, 0}), Error);
}

class ClassWeightFile : public ::testing::Test {
 protected:
  std::vector<double> read(const std::string& text, std::span<const std::string> names = {}) const {
    write_text(path(), text);
    return read_class_weights(path(), 3, names);
  }
  std::string path() const { return (directory_.path() / "weights.csv").string(); }
  void expect_refused(const std::string& text, const std::string& said) const {
    const Error error = error_of([&] { static_cast<void>(read(text, names_)); });
    EXPECT_EQ(error.code(), ExitCode::data) << text;
    EXPECT_EQ(error.what(), "--class-weights " + path() + ": " + said);
  }

  TemporaryDirectory directory_;
  std::vector<std::string> names_{"cat", "dog, large", "a \"b\""};
};

TEST_F(ClassWeightFile, HasAWeightForEachClassByNumberOrName) {
  EXPECT_THAT(read("class,weight\n0,1\n2,0.25\n1,3e2\n"), ElementsAre(1.0, 300.0, 0.25));
  EXPECT_THAT(read("\xEF\xBB\xBF"
                   "class,weight\r\n\"dog, large\",2\r\n\r\n\"a \"\"b\"\"\", 0\r\n\"cat\",1",
                   names_),
              ElementsAre(1.0, 2.0, 0.0));
  EXPECT_THAT(read("class,weight\n0,1\n1,2\n2,3\n", names_), ElementsAre(1.0, 2.0, 3.0));
}

TEST_F(ClassWeightFile, MayHaveAllCellsInQuotes) {
  EXPECT_THAT(read("\"class\",\"weight\"\n\"cat\",\"2.5\"\n\"1\",\"1\"\n\"2\",\"3\"\n", names_),
              ElementsAre(2.5, 1.0, 3.0));
}

TEST_F(ClassWeightFile, PrefersANameToANumber) {
  const std::vector<std::string> numbers{"1", "2", "0"};
  EXPECT_THAT(read("class,weight\n0,10\n1,11\n2,12\n", numbers), ElementsAre(11.0, 12.0, 10.0));
}

TEST_F(ClassWeightFile, IsRefusedWithItsLineIfItIsWrong) {
  expect_refused("", "is empty; its first line must name the columns");
  expect_refused("cat,1\n", "line 1: is not the header 'class,weight'");
  expect_refused("class,weight\ncat\n", "line 2 has 1 cells, and the header has 2");
  expect_refused("class,weight\n\"cat,1\n", "line 2 has a quote that is not closed");
  expect_refused("class,weight\ncow,1\n", "line 2: 'cow' is neither the name of a class nor a number from 0 to 2");
  expect_refused("class,weight\n3,1\n", "line 2: '3' is neither the name of a class nor a number from 0 to 2");
  expect_refused("class,weight\ncat,1\n0,2\n", "line 3: names class 0 (cat) again");
  for (const char* const bad : {"-1", "x", "", "inf", "nan", "1e400", "1 2"}) {
    expect_refused(fmt::format("class,weight\ncat,{}\n", bad),
                   fmt::format("line 2: the weight '{}' is not a finite number of at least 0", bad));
  }
  expect_refused("class,weight\ncat,1\n2,1\n", "has no weight for class 1 (dog, large)");
}

TEST_F(ClassWeightFile, ThatIsMissingIsNamed) {
  const Error error = error_of([&] { static_cast<void>(read_class_weights(path(), 3, {})); });
  EXPECT_EQ(error.code(), ExitCode::no_input);
  EXPECT_THAT(error.what(), HasSubstr("--class-weights " + path()));
}

}  // namespace
}  // namespace carillon::testing
