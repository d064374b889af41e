// Compares optimisers and schedules that are created from options with PyTorch's optimisers and schedules in float64.
// make_optimizer_golden.py describes the problem, and writes the expected values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "src/cli/options/option_groups.h"
#include "src/device/cpu_device.h"
#include "src/optim/optimizer.h"

namespace carillon::testing {
namespace {

constexpr int steps = 50;

/// Splits a shell command line into words. Quotes '' may enclose spaces.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

OptimizerSettings settings_of(const std::string& line) {
  std::vector<std::string> words = words_of(line);
  std::vector<const char*> arguments{"program"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  TrainOptions options;
  options.checkpoint.train_dir = "runs";
  OptionSet set;
  declare(set, options);
  set.parse(static_cast<int>(arguments.size()), arguments.data());
  check_combinations(set, options);
  resolve_ends(options.optimizer);
  return options.optimizer.settings();
}

std::vector<ParameterSpec> variables_of(std::string_view rule) {
  if (rule.starts_with("muon")) {
    return {{"stem/weights", {2, 3}, {}, 0.02f},
            {"conv/weights", {3, 1, 2, 4}, {}, 0.02f},
            {"conv/biases", {4}, {}, 0.0f},
            {"dense/weights", {2, 5}, {}, 0.02f},
            {"logits/weights", {5, 2}, {}, 0.02f}};
  }
  return {{"first/weights", {3, 2}, {}, 0.02f}, {"first/biases", {2}, {}, 0.0f}, {"second/weights", {2, 2}, {}, 0.02f}};
}

double element_of(int parameter, std::size_t i) { return 10.0 * parameter + static_cast<double>(i); }

std::vector<double> values_of(const ParameterStore& parameters) {
  std::vector<double> values;
  for (int p = 0; p < static_cast<int>(parameters.specs().size()); ++p) {
    const Tensor parameter = parameters.value(p);
    for (const float value : parameter.floats()) values.push_back(value);
  }
  return values;
}

void fill(const ParameterStore& parameters, auto&& element) {
  for (int p = 0; p < static_cast<int>(parameters.specs().size()); ++p) {
    const std::span<float> values = parameters.value(p).floats(), gradients = parameters.gradient(p).floats();
    for (std::size_t i = 0; i < values.size(); ++i) element(element_of(p, i), values[i], gradients[i]);
  }
}

struct Path {
  std::vector<double> start, end;
};

Path trained(const OptimizerSettings& settings) {
  CpuDevice device(1);
  std::vector<ParameterSpec> variables = variables_of(settings.rule);
  for (ParameterSpec& variable : variables) {  // as build_network does
    for (const std::string& pattern : settings.decay_exclude) {
      if (name_matches(pattern, variable.name)) variable.l2_factor = 0.0f;
    }
  }
  const ParameterStore parameters(variables, device,
                                  {.gradients = device.allocate(gradient_bytes(ParameterLayout(variables)))},
                                  optimizer_slots(settings));
  StepInputs inputs;
  const auto optimizer = make_optimizer(settings, parameters, device, inputs);
  fill(parameters, [](double e, float& w, float&) { w = static_cast<float>(std::cos(2.0 * e)); });
  for (std::size_t slot = 0; slot < parameters.slots().size(); ++slot) {
    if (!parameters.slots()[slot].starts_as_values) continue;
    std::ranges::copy(parameters.values(), parameters.slot(static_cast<int>(slot)).begin());
  }
  Path path{.start = values_of(parameters), .end = {}};
  for (int step = 0; step < steps; ++step) {
    inputs.scalars = step_scalars(settings, step);
    fill(parameters, [&](double e, float& w, float& g) {
      g = static_cast<float>((0.5 + 0.25 * std::fmod(e, 5.0)) * (w - std::sin(e)) + 0.3 * std::cos(e + 0.7 * step));
    });
    optimizer->apply({parameters.step_sums().data(), {}}, device.stream());
  }
  path.end = values_of(parameters);
  return path;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

TEST(OptimizerGolden, EveryCaseEndsWherePyTorchEnds) {
  std::ifstream file(CARILLON_TEST_SAMPLES "/optimizers.txt");
  int cases = 0;
  for (std::string options, line; std::getline(file, options) && std::getline(file, line); ++cases) {
    const Path path = trained(settings_of(options));
    std::vector<double> expected;
    std::istringstream values(line);
    for (double value; values >> value;) expected.push_back(value);
    ASSERT_EQ(expected.size(), path.end.size());
    EXPECT_LT(distance(path.end, expected), 1e-4 * distance(path.end, path.start)) << options;
  }
  EXPECT_EQ(cases, 75);
}

}  // namespace
}  // namespace carillon::testing
