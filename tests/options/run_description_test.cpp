#include "src/cli/options/run_description.h"

#include <gmock/gmock.h>

namespace carillon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunDescriptionTest : public ::testing::Test {
 protected:
  RunDescriptionTest() {
    description_.add("seed", std::uint64_t{18446744073709551615u}, Scope::result);
    description_.add("learning_rate", 0.1, Scope::result);
    description_.add("data", std::vector<std::string>{"größe/*"}, Scope::run);
    description_.add("tower count", 2, Scope::result);
    description_.add("fresh", false, Scope::run);
  }
  RunDescription description_;
};

TEST_F(RunDescriptionTest, IsOneJsonObjectInAlphabeticalOrder) {
  EXPECT_EQ(description_.json(),
            R"({"data":["größe/*"],"fresh":false,"learning_rate":0.1,"seed":18446744073709551615,"tower count":2})");
  description_.remove("learning_rate");
  description_.remove("no such setting");
  EXPECT_EQ(description_.json(), R"({"data":["größe/*"],"fresh":false,"seed":18446744073709551615,"tower count":2})");
}

TEST_F(RunDescriptionTest, ReplacesAValueAndKeepsWhatItAffects) {
  description_.replace("learning_rate", 0.5);
  description_.replace("no such setting", 1);
  EXPECT_THAT(description_.changes_since(R"({"learning_rate":0.2})"),
              ElementsAre("--learning-rate was 0.2 up to the checkpoint and is 0.5 from here"));
  EXPECT_EQ(description_.fields().size(), 5u);
}

TEST_F(RunDescriptionTest, ReportsTheChangesThatAffectTheResult) {
  EXPECT_THAT(description_.changes_since(R"({"data":[],"fresh":true,"learning_rate":0.2,"seed":3,"tower count":1})"),
              ElementsAre("--seed was 3 up to the checkpoint and is 18446744073709551615 from here",
                          "--learning-rate was 0.2 up to the checkpoint and is 0.1 from here",
                          "number of ranks was 1 up to the checkpoint and is 2 from here (sums may round differently; "
                          "without --global-batch a step takes another number of samples)"));
}

TEST_F(RunDescriptionTest, ReportsNoChangeOfAnOptionWithoutEffect) {
  description_.mark_without_effect("learning-rate");
  description_.mark_without_effect("no-such-option");
  EXPECT_THAT(description_.changes_since(R"({"learning_rate":0.2,"tower count":2})"), IsEmpty());
  EXPECT_THAT(description_.json(), ::testing::HasSubstr(R"("learning_rate":0.1)"));
}

TEST_F(RunDescriptionTest, ReportsThatBitsAreEqualOnOneInstructionSetOnly) {
  RunDescription description;
  description.add("isa", std::string("auto"), Scope::run);
  description.add("instruction set", std::string("avx2"), Scope::result);
  description.add("winograd convolutions", std::vector<std::string>{"conv2"}, Scope::result);
  EXPECT_THAT(
      description.changes_since(R"({"instruction set":"avx512","isa":"auto","winograd convolutions":["conv2"]})"),
      ElementsAre(R"(instruction set was "avx512" up to the checkpoint and is "avx2" from here)"
                  " (equal bits only on the same instruction set)"));
  EXPECT_THAT(
      description.changes_since(R"({"instruction set":"avx2","winograd convolutions":["conv1","conv2"]})"),
      ElementsAre(R"(winograd convolutions was ["conv1","conv2"] up to the checkpoint and is ["conv2"] from here)"
                  " (sums may round differently)"));
}

TEST_F(RunDescriptionTest, SaysNothingOfACheckpointThatHoldsNoInstructionSet) {
  RunDescription description;
  description.add("instruction set", std::string("avx2"), Scope::result);
  EXPECT_THAT(description.changes_since(R"({"isa":"auto"})"), IsEmpty());
}

TEST_F(RunDescriptionTest, FindsNoChangeInItselfNorInWhatIsNotKnown) {
  EXPECT_THAT(description_.changes_since(description_.json()), IsEmpty());
  EXPECT_THAT(description_.changes_since(R"({"model":"lenet"})"), IsEmpty());
  EXPECT_THAT(description_.changes_since("no JSON"), IsEmpty());
}

}  // namespace
}  // namespace carillon::testing
