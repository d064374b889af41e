// Tests --init-exclude: excluded variables must start as in a run without an initial checkpoint.
#include <map>

#include "tests/train/run_test.h"

namespace carillon::testing {
namespace {

/// Returns a network that initialises layer2/biases from the data. It uses the number of images, and the first pixels
/// of the first and of the last image.
Network network_of_data(const NetworkSettings& settings) {
  Network network = mnist_network(settings);
  const auto compute = [](std::span<const std::uint8_t* const> images) {
    std::vector<float> values(10);
    values[0] = static_cast<float>(images.size());
    values[1] = images.front()[0];
    values[2] = images.back()[0];
    return values;
  };
  network.values_of_data = {{.variable = "layer2/biases", .max_records = 7, .compute = compute}};
  return network;
}

class InitExcludeTest : public RunTest {
 protected:
  InitExcludeTest() { options_.model.make = network_of_data; }

  /// Runs a training with `options` in the directory `name`. Returns the final variables by name.
  std::map<std::string, std::vector<float>> variables_of(TrainOptions options, const std::string& name) {
    options.checkpoint.train_dir = (directory_ / name).string();
    EXPECT_EQ(train(options), ExitCode::done);
    mpi_.barrier();
    std::map<std::string, std::vector<float>> variables;
    for (const NamedArray& array :
         read_checkpoint(checkpoint_path(options.checkpoint.train_dir, options.optimizer.max_steps)).variables) {
      variables[array.name] = array.values;
    }
    return variables;
  }
};

TEST_F(InitExcludeTest, ExcludedVariablesStartAsInAFreshRunWithTheSameSeed) {
  TrainOptions options = options_;
  options.optimizer.max_steps = 2;
  options.model.seed = 1;
  const auto trained = variables_of(options, "trained");
  options.optimizer.max_steps = 0;
  options.model.seed = 2;
  const auto fresh = variables_of(options, "fresh");
  options.checkpoint.init_from = (directory_ / "trained").string();
  options.checkpoint.init_exclude = {"layer2/*"};
  const auto tuned = variables_of(options, "tuned");
  int excluded = 0;
  for (const auto& [name, values] : tuned) {
    const bool is_excluded = name.starts_with("layer2/");
    EXPECT_NE(trained.at(name), fresh.at(name)) << name;
    EXPECT_EQ(values, is_excluded ? fresh.at(name) : trained.at(name)) << name;
    excluded += is_excluded ? 1 : 0;
  }
  EXPECT_EQ(excluded, 2);
  EXPECT_EQ(tuned.at("layer2/biases")[0], 7.0f) << "computed from the data";
}

}  // namespace
}  // namespace carillon::testing
