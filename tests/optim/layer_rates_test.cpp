#include "src/optim/update_factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/core/error.h"

namespace carillon {
namespace {

struct Variable {
  std::string name;
  int block = -1;
};

std::vector<ParameterSpec> specs_of(const std::vector<Variable>& variables) {
  std::vector<ParameterSpec> specs;
  for (const auto& [name, block] : variables) {
    specs.push_back({.name = name, .shape = {2, 2}, .initializer = {}, .block = block});
  }
  return specs;
}

TEST(LayerRates, FallFromTheLastLayerToTheFirst) {
  const std::vector<ParameterSpec> specs =
      specs_of({{"patches"}, {"tokens"}, {"a/norm", 0}, {"a/mlp", 0}, {"b/norm", 1}, {"norm"}, {"logits"}});
  EXPECT_THAT(layer_rates(0.5, specs), ::testing::ElementsAre(0.125, 0.125, 0.25, 0.25, 0.5, 1.0, 1.0));
}

TEST(LayerRates, CountBlocksOverAllStagesAndWhatIsBetweenThemWithTheSecondOne) {
  const std::vector<ParameterSpec> specs =
      specs_of({{"stem"}, {"a", 0}, {"b", 1}, {"downsample"}, {"c", 2}, {"d", 3}, {"logits"}});
  EXPECT_THAT(layer_rates(0.5, specs), ::testing::ElementsAre(1.0 / 32, 1.0 / 16, 1.0 / 8, 0.25, 0.25, 0.5, 1.0));
}

TEST(LayerRates, AreOneWithoutDecayAndRefuseANetworkWithoutBlocks) {
  const std::vector<ParameterSpec> specs = specs_of({{"layer1"}, {"block1/weights"}, {"layer2"}});
  EXPECT_THAT(layer_rates(1.0, specs), ::testing::Each(1.0));
  try {
    layer_rates(0.5, specs);
    ADD_FAILURE() << "a network without blocks was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "--layer-decay: the network has no blocks (omit --layer-decay)");
  }
}

TEST(LayerRates, MultiplyTheRatesOfGroups) {
  const std::vector<ParameterSpec> specs = specs_of({{"stem/weights"}, {"block1/weights", 0}, {"logits/weights"}});
  const std::vector<UpdateFactors> factors =
      update_factors({.layer_decay = 0.5, .groups = {{.pattern = "block1/*", .rate = 4.0}}}, specs);
  EXPECT_EQ(factors[0].rate, 0.25f);
  EXPECT_EQ(factors[1].rate, 2.0f);
  EXPECT_EQ(factors[2].rate, 1.0f);
}

TEST(UpdateFactors, TreatAnEmbeddingAsAVector) {
  std::vector<ParameterSpec> specs =
      specs_of({{"first/weights"}, {"tokens/positions"}, {"hidden/weights"}, {"last/weights"}});
  specs[1].is_embedding = true;
  const auto adamw = update_factors({.rule = "adamw", .weight_decay = 0.5}, specs);
  EXPECT_EQ(adamw[1].weight_decay, 0.0f);
  EXPECT_EQ(adamw[2].weight_decay, 0.5f);
  const auto muon = update_factors({.rule = "muon"}, specs);
  EXPECT_FALSE(muon[1].orthogonal);
  EXPECT_TRUE(muon[2].orthogonal);
}

}  // namespace
}  // namespace carillon
