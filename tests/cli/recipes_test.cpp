// Expects that each recipe in jobs/recipes contains only options that its program accepts.
#include <gmock/gmock.h>

#include <regex>

#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

const fs::path recipes = fs::path(CARILLON_TEST_SAMPLES) / "../../../jobs/recipes";

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(recipes)) names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

class RecipesTest : public testing::Test, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, RecipesTest, testing::ValuesIn(recipe_names()),
                         [](const auto& recipe) { return recipe.param; });

/// Runs the recipe's program on noise. If the program accepts all options, the run ends with the error that the train
/// directory cannot be created.
TEST_P(RecipesTest, AreTakenByTheirProgram) {
  const std::string file = (recipes / (GetParam() + ".cfg")).string(), text = read_bytes(file);
  std::smatch program;
  ASSERT_TRUE(std::regex_search(text, program, std::regex("build/bin/([a-z0-9]+_train)"))) << file;
  const std::string smaller = program[1] == "image_train" ? " --image-size 32 --batch-size 2" : "";
  const Outcome outcome = run_program(program[1].str() + " --config " + file + smaller +
                                      " --data synthetic --eval-data synthetic --device cpu --train-dir /dev/null/run");
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::io)) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("--train-dir /dev/null/run: cannot create it"));
}

}  // namespace
}  // namespace carillon
