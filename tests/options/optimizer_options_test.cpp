// Tests the options of the optimiser and the schedule. The tests check which settings follow from the options, and
// which combinations are rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string_view>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon::testing {
namespace {

using ::testing::HasSubstr;

class OptimizerOptions : public ::testing::Test {
 protected:
  /// Parses the options of a training. Throws an error if the options are rejected.
  static TrainOptions parsed(std::vector<const char*> arguments) {
    TrainOptions options;
    options.checkpoint.train_dir = "runs";
    options.optimizer.schedule.decay_steps = 600;
    OptionSet set;
    declare(set, options);
    arguments.insert(arguments.begin(), "program");
    set.parse(static_cast<int>(arguments.size()), arguments.data());
    choose_length(set, options.optimizer);
    check_combinations(set, options);
    resolve_ends(options.optimizer);
    return options;
  }
  static void expect_refused(const std::vector<const char*>& arguments, const std::string& said) {
    try {
      parsed(arguments);
      ADD_FAILURE() << said << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  }
};

TEST_F(OptimizerOptions, ByDefaultArePlainGradientDescentWithAnExponentialDecay) {
  const OptimizerSettings settings = parsed({}).optimizer.settings();
  EXPECT_EQ(settings.rule, "sgd");
  EXPECT_EQ(settings.weight_decay, 0.0);
  EXPECT_DOUBLE_EQ(settings.learning_rate.rate(0), 0.001);
  EXPECT_DOUBLE_EQ(settings.learning_rate.rate(600), 0.001 * 0.99);
}

TEST_F(OptimizerOptions, ReachTheOptimiser) {
  const OptimizerSettings momentum =
      parsed({"--optimizer", "momentum", "--momentum", "0.8", "--weight-decay", "0.01"}).optimizer.settings();
  EXPECT_EQ(momentum.rule, "momentum");
  EXPECT_EQ(momentum.momentum, 0.8);
  EXPECT_EQ(momentum.weight_decay, 0.01);
  EXPECT_EQ(parsed({"--optimizer", "momentum", "--dampening", "0.3"}).optimizer.settings().dampening, 0.3);
  const OptimizerSettings adamw = parsed({"--optimizer", "adamw", "--adam-beta1", "0.8", "--adam-beta2", "0.9",
                                          "--adam-epsilon", "1e-3", "--moving-average-decay", "0.5"})
                                      .optimizer.settings();
  EXPECT_EQ(adamw.rule, "adamw");
  EXPECT_EQ(adamw.adam_beta1, 0.8);
  EXPECT_EQ(adamw.adam_beta2, 0.9);
  EXPECT_EQ(adamw.adam_epsilon, 1e-3);
  EXPECT_EQ(adamw.moving_average_decay, 0.5);
  const OptimizerSettings muon = parsed({"--optimizer", "muon", "--muon-momentum", "0.6", "--muon-steps", "3",
                                         "--muon-normalize", "true", "--group", "a: muon=0", "--group", "b: muon=1"})
                                     .optimizer.settings();
  EXPECT_EQ(muon.muon_momentum, 0.6);
  EXPECT_EQ(muon.muon_steps, 3);
  EXPECT_TRUE(muon.muon_normalizes);
  EXPECT_EQ(muon.groups[0].muon, false);
  EXPECT_EQ(muon.groups[1].muon, true);
}

TEST_F(OptimizerOptions, ClipAndExcludeReachTheOptimiser) {
  EXPECT_EQ(parsed({}).optimizer.settings().clip_norm, 0.0);
  EXPECT_TRUE(parsed({}).optimizer.settings().decay_exclude.empty());
  const OptimizerSettings settings =
      parsed({"--clip-norm", "0.5", "--decay-exclude", "none", "logits/*"}).optimizer.settings();
  EXPECT_EQ(settings.clip_norm, 0.5);
  EXPECT_EQ(settings.decay_exclude, (std::vector<std::string>{"none", "logits/*"}));
  for (const char* const text : {"-1", "nan", "inf", "x"}) expect_refused({"--clip-norm", text}, "--clip-norm");
}

TEST_F(OptimizerOptions, LayerDecayReachesTheOptimiserAndIsAboveZero) {
  EXPECT_EQ(parsed({}).optimizer.settings().layer_decay, 1.0);
  EXPECT_EQ(parsed({"--layer-decay", "0.75"}).optimizer.settings().layer_decay, 0.75);
  for (const char* const text : {"-1", "1.1", "nan"}) expect_refused({"--layer-decay", text}, "--layer-decay");
  expect_refused({"--layer-decay", "0"}, "--layer-decay 0 trains the last layer only: use --freeze");
}

TEST_F(OptimizerOptions, ThatThisOptimiserDoesNotUseAreRefused) {
  expect_refused({"--momentum", "0.9"},
                 "--momentum requires --optimizer momentum, nesterov, lars, muon-nesterov; this run uses sgd");
  expect_refused({"--optimizer", "nesterov", "--dampening", "0.1"},
                 "--dampening requires --optimizer momentum; this run uses");
  expect_refused({"--optimizer", "adamw", "--dampening", "0"}, "--dampening");
  expect_refused({"--optimizer", "momentum", "--adam-beta1", "0.9"}, "--adam-beta1");
  expect_refused({"--lars-coefficient", "0.9"}, "--lars-coefficient");
  expect_refused({"--adam-beta2", "0.9"}, "--adam-beta2");
  expect_refused({"--adam-epsilon", "0.9"}, "--adam-epsilon");
  expect_refused({"--muon-momentum", "0.5"},
                 "--muon-momentum requires --optimizer muon, muon-nesterov; this run uses sgd");
  expect_refused({"--muon-steps", "3"}, "--muon-steps requires --optimizer muon, muon-nesterov; this run uses sgd");
  expect_refused({"--muon-normalize", "true"}, "--muon-normalize requires --optimizer muon, muon-nesterov");
  expect_refused({"--optimizer", "muon", "--momentum", "0.9"}, "--momentum requires");
  expect_refused({"--optimizer", "muon-nesterov", "--adam-beta1", "0.9"}, "--adam-beta1 requires");
  expect_refused({"--optimizer", "adamw", "--group", "*: muon=1"}, "muon of '*' requires --optimizer muon");
  expect_refused({"--optimizer", "guess"}, "'guess' is not one of sgd, momentum, nesterov, adamw, lars, lamb");
  expect_refused({"--optimizer", "adamw", "--adam-beta1", "1"}, "--adam-beta1");
}

TEST_F(OptimizerOptions, ALookaheadGoesToTheEndOfTheTraining) {
  EXPECT_EQ(parsed({}).optimizer.settings().lookahead.every, 0);
  const LookaheadSettings lookahead =
      parsed({"--lookahead-every", "5", "--lookahead-decay", "0.75", "--lookahead-power", "3", "--max-steps", "70"})
          .optimizer.settings()
          .lookahead;
  EXPECT_EQ(lookahead.every, 5);
  EXPECT_EQ(lookahead.decay, 0.75);
  EXPECT_EQ(lookahead.power, 3.0);
  EXPECT_EQ(lookahead.steps, 70);
  EXPECT_EQ(parsed({"--lookahead-every", "5", "--lookahead-steps", "30"}).optimizer.settings().lookahead.steps, 30);
  EXPECT_EQ(parsed({"--lookahead-every", "5", "--max-steps", "70"}).optimizer.settings().lookahead.steps, 0)
      << "it has no end";
}

TEST_F(OptimizerOptions, OfALookaheadNeedOneThatComesBeforeTheEnd) {
  for (const char* const option : {"--lookahead-decay", "--lookahead-power", "--lookahead-steps"}) {
    expect_refused({option, "1"}, std::string(option) + " requires --lookahead-every");
  }
  expect_refused({"--lookahead-every", "8", "--lookahead-decay", "1.1"}, "--lookahead-decay");
  expect_refused({"--lookahead-every", "8", "--lookahead-steps", "7"},
                 "--lookahead-every 8 exceeds --lookahead-steps 7");
  expect_refused({"--lookahead-every", "8", "--max-steps", "7"}, "--lookahead-every 8 exceeds --max-steps 7");
  EXPECT_NO_THROW(parsed({"--lookahead-every", "8", "--max-steps", "0"}));
}

TEST_F(OptimizerOptions, OfARecipeAreLeftOutWhereTheCommandLineChoosesOtherwise) {
  const std::string recipe = ::testing::TempDir() + "optimizer_options_test.cfg";
  std::ofstream(recipe) << "optimizer = momentum\nmomentum = 0.8\nschedule = triangular\nschedule-knots = 0:1,9:0\n";
  EXPECT_EQ(parsed({"--config", recipe.c_str()}).optimizer.settings().momentum, 0.8);
  const OptimizerSettings chosen =
      parsed({"--config", recipe.c_str(), "--optimizer", "adamw", "--schedule", "constant", "--learning-rate", "0.5"})
          .optimizer.settings();
  EXPECT_EQ(chosen.rule, "adamw");
  EXPECT_EQ(chosen.learning_rate.rate(7), 0.5);
  expect_refused({"--config", recipe.c_str(), "--adam-beta1", "0.5"}, "--adam-beta1 requires --optimizer");
  expect_refused({"--config", recipe.c_str(), "--optimizer", "adamw", "--momentum", "0.5"}, "--momentum requires");
}

TEST_F(OptimizerOptions, TheEndOfAScheduleIsAGlobalStepWithAnyWarmUp) {
  for (const char* const kind : {"cosine", "polynomial"}) {
    const Schedule schedule = parsed({"--schedule", kind, "--learning-rate", "0.5", "--schedule-steps", "100",
                                      "--warmup-steps", "20", "--final-learning-rate", "0.1"})
                                  .optimizer.settings()
                                  .learning_rate;
    EXPECT_DOUBLE_EQ(schedule.rate(0), 0.0) << kind;
    EXPECT_DOUBLE_EQ(schedule.rate(10), 0.25) << kind;
    EXPECT_DOUBLE_EQ(schedule.rate(20), 0.5) << kind;
    EXPECT_DOUBLE_EQ(schedule.rate(60), 0.3) << kind;
    EXPECT_NEAR(schedule.rate(100), 0.1, 1e-15) << kind;
    EXPECT_NEAR(parsed({"--schedule", kind, "--max-steps", "50"}).optimizer.settings().learning_rate.rate(50), 0.0,
                1e-15)
        << kind;
    EXPECT_NO_THROW(parsed({"--schedule", kind, "--max-steps", "0"}).optimizer.settings()) << kind;
  }
}

TEST_F(OptimizerOptions, MilestonesAndKnotsAreGlobalStepsWithAnyWarmUp) {
  const Schedule steps = parsed({"--schedule", "step", "--learning-rate", "0.8", "--milestones", "30, 60",
                                 "--milestone-factor", "0.5", "--warmup-steps", "10", "--warmup-from", "0.4"})
                             .optimizer.settings()
                             .learning_rate;
  EXPECT_DOUBLE_EQ(steps.rate(0), 0.4);
  EXPECT_DOUBLE_EQ(steps.rate(5), 0.6);
  EXPECT_DOUBLE_EQ(steps.rate(29), 0.8);
  EXPECT_DOUBLE_EQ(steps.rate(30), 0.4);
  EXPECT_DOUBLE_EQ(steps.rate(60), 0.2);
  for (const char* const warm_up : {"0", "10"}) {
    const Schedule lines =
        parsed({"--schedule", "triangular", "--schedule-knots", "0:0,10:0.5,30:1e-1", "--warmup-steps", warm_up})
            .optimizer.settings()
            .learning_rate;
    EXPECT_DOUBLE_EQ(lines.rate(5), 0.25);
    EXPECT_DOUBLE_EQ(lines.rate(20), 0.3);
    EXPECT_DOUBLE_EQ(lines.rate(40), 0.1);
  }
  EXPECT_DOUBLE_EQ(
      parsed({"--schedule", "constant", "--learning-rate", "0.5"}).optimizer.settings().learning_rate.rate(99), 0.5);
}

TEST_F(OptimizerOptions, ThatThisScheduleDoesNotUseOrLacksAreRefused) {
  expect_refused({"--schedule", "constant", "--decay-steps", "5"},
                 "--decay-steps requires --schedule exponential; this run uses constant");
  expect_refused({"--schedule", "cosine", "--learning-rate-decay", "0.5"}, "--learning-rate-decay");
  expect_refused({"--schedule-steps", "5"},
                 "--schedule-steps requires --schedule polynomial, cosine; this run uses exp");
  expect_refused({"--schedule", "step", "--milestones", "5", "--final-learning-rate", "0"}, "--final-learning-rate");
  expect_refused({"--schedule", "cosine", "--schedule-power", "2"}, "--schedule-power");
  expect_refused({"--milestones", "5"}, "--milestones");
  expect_refused({"--milestone-factor", "5"}, "--milestone-factor");
  expect_refused({"--schedule-knots", "0:1"}, "--schedule-knots");
  expect_refused({"--schedule", "triangular", "--schedule-knots", "0:1", "--learning-rate", "1"}, "--learning-rate");
  expect_refused({"--schedule", "step"}, "--schedule step requires --milestones");
  expect_refused({"--schedule", "triangular"}, "--schedule triangular requires --schedule-knots");
  expect_refused({"--warmup-from", "0.1"}, "--warmup-from requires --warmup-steps");
  expect_refused({"--schedule", "cosine", "--schedule-steps", "9", "--warmup-steps", "9"},
                 "--schedule-steps 9: the schedule must end");
  expect_refused({"--schedule", "cosine", "--max-steps", "9", "--warmup-steps", "9"},
                 "--max-steps 9: the schedule must end");
}

TEST_F(OptimizerOptions, StepsThatDoNotGrowAreNoListOfThem) {
  for (const char* const text : {"5,5", "5,4", "5,", "x", "-1", "1;2", "9007199254740993"}) {
    expect_refused({"--milestones", text}, "is not a list of ascending steps N,N,...");
  }
  for (const char* const text : {"5:1,5:2", "5:1,4:1", "5", "5:1:1", "5:-1", "5:nan", ":1", "1:1,"}) {
    expect_refused({"--schedule-knots", text}, "is not a list of ascending steps with learning rates");
  }
}

TEST_F(OptimizerOptions, EpochsSetTheStepsAndTheEndsThatDependOnThem) {
  carillon::OptimizerOptions o =
      parsed({"--epochs", "2.5", "--schedule", "cosine", "--lookahead-every", "5", "--lookahead-power", "1"}).optimizer;
  o.schedule.steps = o.update.lookahead.steps = 0;
  RunDescription description;
  for (const char* const name : {"max_steps", "schedule_steps", "lookahead_steps"})
    description.add(name, 0, Scope::run);
  resolve_epochs(o, 1000, 32, description);
  EXPECT_EQ(o.max_steps, 79) << "2500 / 32 = 78.1";
  EXPECT_EQ(o.schedule.steps, 79);
  EXPECT_EQ(o.update.lookahead.steps, 79);
  EXPECT_EQ(description.json(), R"({"lookahead_steps":79,"max_steps":79,"schedule_steps":79})");
}

TEST_F(OptimizerOptions, EpochsAreRoundedUpToWholeSteps) {
  const auto steps = [](double epochs, std::uint64_t records, std::uint64_t global_batch) {
    carillon::OptimizerOptions o{.epochs = epochs};
    o.schedule.decay_steps = 1;
    RunDescription description;
    resolve_epochs(o, records, global_batch, description);
    return o.max_steps;
  };
  EXPECT_EQ(steps(1.0, 1000, 100), 10);
  EXPECT_EQ(steps(1.0, 1001, 100), 11);
  EXPECT_EQ(steps(1.1, 1000, 100), 11) << "1.1 is not exact";
  EXPECT_EQ(steps(0.5, 60'000, 128), 235);
  EXPECT_EQ(steps(1e-6, 1000, 100), 1);
  EXPECT_THROW(steps(1e30, 1000, 100), Error);
}

TEST_F(OptimizerOptions, TheStrongerSourceChoosesBetweenEpochsAndSteps) {
  const std::string recipe = ::testing::TempDir() + "epochs_test.cfg";
  std::ofstream(recipe) << "epochs = 3\n";
  EXPECT_EQ(parsed({"--config", recipe.c_str()}).optimizer.epochs, 3.0);
  const carillon::OptimizerOptions steps = parsed({"--config", recipe.c_str(), "--max-steps", "7"}).optimizer;
  EXPECT_EQ(steps.epochs, 0.0);
  EXPECT_EQ(steps.max_steps, 7);
  std::ofstream(recipe) << "max-steps = 7\n";
  EXPECT_EQ(parsed({"--config", recipe.c_str(), "--epochs", "0.5"}).optimizer.epochs, 0.5);
  expect_refused({"--epochs", "2", "--max-steps", "7"}, "--epochs 2 and --max-steps 7 contradict each other");
  expect_refused({"--epochs", "-1"}, "--epochs");
  expect_refused({"--epochs", "nan"}, "--epochs");
}

TEST_F(OptimizerOptions, OfEveryUpdateRuleAreThoseOfThePrograms) {
  OptionSet set;
  TrainOptions options;
  EXPECT_NO_THROW(declare(set, options)) << "it checks all rules";
  try {
    check_rule_options(set, {{.name = "adamax", .options = {"adam-beta2", "adam_beta1"}}});
    ADD_FAILURE() << "adam_beta1 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
    EXPECT_THAT(error.what(), HasSubstr("the update rule adamax (src/optim/rules.h) names the option 'adam_beta1'"));
  }
}

TEST_F(OptimizerOptions, GroupsKeepTheirOrder) {
  const std::vector<ParameterGroup> groups =
      parsed(
          {"--group", "*/biases: rate=64,decay=0, frozen-after=300 ,frozen-until=20", "--group", " conv*:decay=1e-4"})
          .optimizer.settings()
          .groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].pattern, "*/biases");
  EXPECT_EQ(groups[0].rate, 64.0);
  EXPECT_EQ(groups[0].decay, 0.0);
  EXPECT_EQ(groups[0].frozen_until, 20);
  EXPECT_EQ(groups[0].frozen_after, 300);
  EXPECT_EQ(groups[1].pattern, "conv*");
  EXPECT_EQ(groups[1].rate, 1.0);
  EXPECT_EQ(groups[1].decay, 1e-4);
  EXPECT_EQ(groups[1].frozen_until, 0);
  EXPECT_EQ(groups[1].frozen_after, ParameterGroup::never);
  EXPECT_EQ(parsed({"--group", "*: rate=1"}).optimizer.settings().groups.front().decay, std::nullopt);
}

/// If several groups match a variable, the first one applies. --freeze must have precedence over all of these groups.
TEST_F(OptimizerOptions, FreezeComesBeforeEveryGroupThatNamesTheSameVariable) {
  const std::vector<ParameterGroup> groups =
      parsed({"--group", "*: rate=2", "--freeze", "conv1/*", "fc/*"}).optimizer.settings().groups;
  ASSERT_EQ(groups.size(), 3u);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(groups[i].pattern, i == 0 ? "conv1/*" : "fc/*");
    EXPECT_EQ(groups[i].frozen_after, 0);
    EXPECT_EQ(groups[i].option, "--freeze");
  }
  EXPECT_EQ(groups[2].pattern, "*");
  EXPECT_EQ(groups[2].frozen_after, ParameterGroup::never);
}

TEST_F(OptimizerOptions, AGroupThatIsNoneIsNamed) {
  for (const char* const text :
       {"*/biases", "*:", ":rate=1", "*: rate", "*: rate=1, rate=2", "a b: rate=1", "*: rate=1,"}) {
    expect_refused({"--group", "*: rate=1", text}, std::string("--group: '") + text + "' is not PATTERN: SETTING=X");
  }
}

TEST_F(OptimizerOptions, AWrongSettingOfAGroupIsNamedWithItsFault) {
  for (const auto& [text, fault] :
       {std::pair{"*: rate=-1", "'-1' is not a number of at least 0 (rate of *)"},
        {"*: speed=1", "'speed' is not a setting of a group"},
        {"*: frozen-until=5, frozen-after=5", "'frozen-after=5' is not later than frozen-until=5"},
        {"*: muon=2", "'2' is not a whole number of at most 1 (muon of *)"},
        {"*: frozen-until=-1", "'-1' is not a whole number of at least 0 (frozen-until of *)"}}) {
    expect_refused({"--group", "*: rate=1", text}, std::string("--group: ") + fault);
  }
}

TEST_F(OptimizerOptions, AllDecideTheResult) {
  TrainOptions options;
  OptionSet set;
  declare(set, options);
  const std::string before = set.values().json();
  std::vector<const char*> arguments{"program"};
  for (const char* const argument :
       {"--optimizer=momentum",  "--momentum=0.1",        "--dampening=0.1",          "--adam-beta1=0.1",
        "--adam-beta2=0.1",      "--adam-epsilon=0.1",    "--lars-coefficient=0.1",   "--muon-momentum=0.1",
        "--muon-steps=1",        "--muon-normalize=true", "--weight-decay=0.1",       "--group=*: rate=2",
        "--clip-norm=1",         "--decay-exclude=none",  "--freeze-batch-norm=true", "--lookahead-every=1",
        "--lookahead-decay=0.1", "--lookahead-power=1",   "--lookahead-steps=1",      "--schedule=step",
        "--warmup-steps=1",      "--warmup-from=1",       "--schedule-steps=1",       "--final-learning-rate=1",
        "--schedule-power=2",    "--milestones=5",        "--milestone-factor=1",     "--schedule-knots=5:1"}) {
    arguments.push_back(argument);
  }
  set.parse(static_cast<int>(arguments.size()), arguments.data());
  std::vector<std::string> changed, expected;
  for (const std::string& line : set.values().changes_since(before)) changed.push_back(line.substr(0, line.find(' ')));
  for (const std::string_view argument : std::span(arguments).subspan(1)) {
    expected.emplace_back(argument.substr(0, argument.find('=')));
  }
  EXPECT_THAT(changed, ::testing::UnorderedElementsAreArray(expected));
}

TEST_F(OptimizerOptions, OfOtherSchedulesAndRulesHaveNoEffect) {
  const auto without_effect = [](const std::vector<const char*>& arguments) {
    const std::vector<std::string_view> names = options_without_effect(parsed(arguments));
    return std::set<std::string_view>(names.begin(), names.end());
  };
  const std::set<std::string_view> cosine = without_effect({"--schedule", "cosine", "--optimizer", "adamw"});
  for (const char* const option :
       {"decay-steps", "learning-rate-decay", "schedule-power", "milestones", "milestone-factor", "schedule-knots",
        "warmup-from", "momentum", "dampening", "lars-coefficient", "muon-momentum", "lookahead-decay"}) {
    EXPECT_TRUE(cosine.contains(option)) << option;
  }
  for (const char* const option : {"learning-rate", "final-learning-rate", "schedule-steps", "adam-beta1",
                                   "weight-decay", "batch-size", "shuffle-window"}) {
    EXPECT_FALSE(cosine.contains(option)) << option;
  }
  const std::set<std::string_view> others =
      without_effect({"--schedule", "triangular", "--schedule-knots", "0:0.1,9:0.2", "--warmup-steps", "5",
                      "--lookahead-every", "5", "--optimizer", "momentum", "--global-batch", "8", "--shuffle=false"});
  for (const char* const option : {"learning-rate", "adam-beta1", "batch-size", "shuffle-window"}) {
    EXPECT_TRUE(others.contains(option)) << option;
  }
  for (const char* const option : {"schedule-knots", "warmup-from", "momentum", "dampening", "lookahead-decay"}) {
    EXPECT_FALSE(others.contains(option)) << option;
  }
}

}  // namespace
}  // namespace carillon::testing
