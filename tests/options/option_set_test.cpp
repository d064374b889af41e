#include "src/cli/options/option_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "carillon/core/error.h"
#include "src/cli/options/option_groups.h"

namespace carillon::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::string_literals;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { declare(set_, options_); }
  ~OptionsTest() override {
    unsetenv("CARILLON_BATCH_SIZE");
    unlink(config_.c_str());
  }
  bool parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return set_.parse(static_cast<int>(arguments.size()), arguments.data());
  }
  void write_config(const std::string& text) { std::ofstream(config_) << text; }
  void expect_refused(const std::vector<const char*>& arguments, const std::string& named) {
    OptionSet set;
    TrainOptions options;
    declare(set, options);
    std::vector<const char*> all{"program"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    try {
      set.parse(static_cast<int>(all.size()), all.data());
      ADD_FAILURE() << named << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  }

  TrainOptions options_;
  OptionSet set_;
  std::string config_ = ::testing::TempDir() + "options_" + std::to_string(getpid()) + ".cfg";
};

TEST_F(OptionsTest, DashAndUnderscoreAreTheSame) {
  parse({"--batch_size", "40", "--max-steps=7"});
  EXPECT_EQ(options_.data.batch_size, 40);
  EXPECT_EQ(options_.optimizer.max_steps, 7);
}

TEST_F(OptionsTest, WordsAfterTheTerminatorBelongToNoOption) {
  OptionSet set;
  bool flag = false;
  std::string text;
  std::vector<std::string> rest;
  set.add("some-flag", flag, "");
  set.add("text", text, "");
  set.take_rest(rest);
  const auto parse = [&](const std::vector<std::string>& words) { set.parse(words); };
  parse({"program", "a", "--some_flag", "--text", "-b", "-", "--", "-h", "--some_flag"});
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "-b");
  EXPECT_EQ(rest, (std::vector<std::string>{"a", "-", "-h", "--some_flag"}));
  EXPECT_THROW(parse({"program", "-x", "--", "-y"}), Error);
}

TEST_F(OptionsTest, AProgramMayHaveACommandLineOnly) {
  OptionSet set;
  std::int64_t count = 1;
  set.add("count", count, 0, 9, "number").value_name = "COUNT";
  set.use_command_line_only();
  setenv("CARILLON_COUNT", "7", 1);
  EXPECT_TRUE(set.parse({"program"}));
  unsetenv("CARILLON_COUNT");
  EXPECT_EQ(count, 1);
  EXPECT_THROW(set.parse({"program", "--config", "x.cfg"}), Error);
  EXPECT_THAT(set.help(), HasSubstr("--count COUNT"));
  EXPECT_THAT(set.help(), Not(HasSubstr("--config")));
}

TEST_F(OptionsTest, CommandLineWinsOverFileWinsOverEnvironment) {
  setenv("CARILLON_BATCH_SIZE", "1", 1);
  setenv("CARILLON_SEED", "11", 1);
  write_config("batch_size = 2  # comment\nlog-every = 22\nseed = 12\n");
  parse({"--batch-size", "3", "--config", config_.c_str()});
  unsetenv("CARILLON_SEED");
  EXPECT_EQ(options_.data.batch_size, 3);
  EXPECT_EQ(options_.logging.log_every, 22);
  EXPECT_EQ(options_.model.seed, 12u);
}

TEST_F(OptionsTest, EnvironmentIsUsedIfNothingElseIsGiven) {
  setenv("CARILLON_BATCH_SIZE", "5", 1);
  parse({});
  EXPECT_EQ(options_.data.batch_size, 5);
}

TEST_F(OptionsTest, FlagsNeedNoValueAndTakeOne) {
  parse({"--fresh", "--log-device-placement", "--shuffle", "false", "--max-steps", "3"});
  EXPECT_TRUE(options_.checkpoint.fresh);
  EXPECT_TRUE(options_.device.log_device_placement);
  EXPECT_FALSE(options_.data.shuffle);
  EXPECT_EQ(options_.optimizer.max_steps, 3);
}

TEST_F(OptionsTest, AWordAfterAFlagIsItsValue) {
  expect_refused({"--fresh", "maybe", "--max-steps", "3"}, "--fresh: 'maybe' is not true or false");
}

TEST_F(OptionsTest, NoPatternIsEmpty) {
  expect_refused({"--data", ""}, "--data: '' is not a pattern");
  expect_refused({"--data", "a", ""}, "--data: '' is not a pattern");
}

TEST_F(OptionsTest, AVariableThatIsAlmostAnOptionIsNamed) {
  for (const char* const name : {"CARILLON_BATCHSIZE", "CARILLON_BATCH_SIZE", "CARILLON_ROOT"}) setenv(name, "5", 1);
  EXPECT_THAT(set_.misspelt_variables(),
              ElementsAre("CARILLON_BATCHSIZE: no option has this name; did you mean CARILLON_BATCH_SIZE?"));
  for (const char* const name : {"CARILLON_BATCHSIZE", "CARILLON_ROOT"}) unsetenv(name);
}

TEST_F(OptionsTest, PatternsMayBeSeveral) {
  parse({"--data", "a b", "c", "--seed", "4"});
  EXPECT_EQ(options_.data.files, (std::vector<std::string>{"a b", "c"}));
}

TEST_F(OptionsTest, HelpSetsNothing) {
  EXPECT_FALSE(parse({"--batch-size", "9", "--help"}));
  EXPECT_EQ(options_.data.batch_size, 100);
  EXPECT_THAT(set_.help(), HasSubstr("--batch-size"));
}

TEST_F(OptionsTest, HelpAndVersionAreAnswered) {
  set_.set_version("program 1.2.3\n");
  EXPECT_FALSE(parse({"-h"}));
  EXPECT_EQ(set_.answer(), set_.help());
  EXPECT_THAT(set_.answer(), HasSubstr("exit codes:\n   0  done\n  64 "));
  EXPECT_FALSE(parse({"--batch-size", "9", "--version"}));
  EXPECT_EQ(options_.data.batch_size, 100);
  EXPECT_EQ(set_.answer(), "program 1.2.3\n");
}

TEST_F(OptionsTest, AProgramPassesTheOptionsOfAnotherOn) {
  double minutes = 0.0;
  std::string train_dir;
  std::vector<std::string> rest;
  set_.pass_on({.program = "outer"}, {"train-dir"});
  set_.add("minutes", minutes, NumberRange::not_negative, "time");
  set_.add("train-dir", train_dir, "folder");
  set_.take_rest(rest);
  parse({"pictures", "--freeze", "stem/*", "stage1/*", "--minutes", "5", "--train_dir=runs/a", "--shuffle=false",
         "--keep_best", "--batch-size", "9"});
  EXPECT_EQ(minutes, 5.0);
  EXPECT_EQ(train_dir, "runs/a");
  EXPECT_THAT(rest, testing::ElementsAre("pictures"));
  EXPECT_THAT(
      set_.words_given([&](const std::string& name) { return set_.is_passed_on(name); }),
      testing::ElementsAre("--freeze", "stem/*", "stage1/*", "--shuffle=false", "--keep-best", "--batch-size", "9"));
  EXPECT_EQ(options_.data.batch_size, 9);
  EXPECT_THAT(set_.help(), HasSubstr("--minutes"));
  EXPECT_THAT(set_.help(), Not(HasSubstr("--batch-size")));
}

TEST_F(OptionsTest, ASlipIsAnsweredWithTheOptionThatWasMeant) {
  expect_refused({"--batch-sise", "4"}, "--batch-sise: unknown option; did you mean --batch-size?");
  // No option has a similar name, and the search for a similar name must be fast.
  const std::string endless = "--batch-size" + std::string(900'000, 'e');
  expect_refused({endless.c_str(), "4"}, endless + ": unknown option (see --help)");
  expect_refused({"--bacth_size=4"}, "--bacth-size: unknown option; did you mean --batch-size?");
  expect_refused({"--lerning-rate", "4"}, "--lerning-rate: unknown option; did you mean --learning-rate?");
  expect_refused({"--trian-dir=runs"}, "--trian-dir: unknown option; did you mean --train-dir?");
  expect_refused({"--no-shuffle"}, "--no-shuffle: unknown option; --shuffle=false turns it off");
  expect_refused({"--no-seed"}, "--no-seed: unknown option (see --help)");
  expect_refused({"--versoin"}, "--versoin: unknown option; did you mean --version?");
  expect_refused({"--momentous", "1"}, "--momentous: unknown option; did you mean --momentum?");
  expect_refused({"--window", "1"}, "--window: unknown option (see --help)");
  expect_refused({"--x"}, "--x: unknown option (see --help)");
  write_config("max-step = 4\n");
  expect_refused({"--config", config_.c_str()},
                 "--max-step: unknown option (in " + config_ + "); did you mean --max-steps?");
}

TEST_F(OptionsTest, AnotherProgramsOptionIsExplained) {
  set_.explain("num-gpus", "start one rank for each");
  for (const std::vector<const char*>& arguments : {std::vector{"--num-gpus", "4"}, {"--num_gpus=4"}, {"--num-gpus"}}) {
    try {
      parse(arguments);
      ADD_FAILURE() << "it was accepted";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "--num-gpus: start one rank for each");
    }
  }
}

TEST_F(OptionsTest, HelpListsThemUnderHeadingsWhereverEachWasDeclared) {
  set_.begin_group("Data");
  bool late = false;
  set_.add("late", late, "declared behind all others");
  const std::string help = set_.help();
  std::size_t last = 0;
  for (const char* const text : {"\nData:\n", "\n  --cache ", "\n  --late ", "\nTraining:\n", "\n  --max-steps ",
                                 "\nOptimiser:\n", "\n  --optimizer ", "\nSchedule:\n", "\n  --learning-rate ",
                                 "\nDevices:\n", "\nLogs:\n", "\nCheckpoints:\n", "\nFaults:\n", "\n  --config "}) {
    const std::size_t found = help.find(text, last);
    ASSERT_NE(found, std::string::npos) << text;
    EXPECT_EQ(help.find(text, found + 1), std::string::npos) << text;
    last = found;
  }
}

TEST_F(OptionsTest, AnAliasSetsTheOptionFromEverySource) {
  parse({"--stop_at_precision=0.9"});
  EXPECT_EQ(options_.task.stop_at_accuracy, 0.9);
  EXPECT_TRUE(set_.given("stop-at-accuracy"));

  const auto parsed = [&](const std::vector<const char*>& arguments) {
    OptionSet set;
    TrainOptions options;
    declare(set, options);
    std::vector<const char*> all{"program"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    set.parse(static_cast<int>(all.size()), all.data());
    return options.task.stop_at_accuracy;
  };
  write_config("stop-at-precision = 0.8\n");
  EXPECT_EQ(parsed({"--config", config_.c_str()}), 0.8);
  EXPECT_EQ(parsed({"--stop-at-accuracy", "0.7", "--config", config_.c_str()}), 0.7) << "the command line wins";
  setenv("CARILLON_STOP_AT_PRECISION", "0.6", 1);
  EXPECT_EQ(parsed({}), 0.6);
  unsetenv("CARILLON_STOP_AT_PRECISION");
}

TEST_F(OptionsTest, AnAliasIsNeitherListedNorStored) {
  EXPECT_THAT(set_.help(), HasSubstr("--stop-at-accuracy"));
  EXPECT_THAT(set_.help(), ::testing::Not(HasSubstr("--stop-at-precision")));
  parse({"--stop-at-accuracy", "0.5"});
  EXPECT_THAT(set_.values().json(), HasSubstr(R"("stop_at_accuracy":0.5,)"));
  EXPECT_THAT(set_.values().json(), ::testing::Not(HasSubstr("stop_at_precision")));
}

TEST_F(OptionsTest, AnOptionGivenByBothNamesIsRefused) {
  expect_refused({"--stop-at-accuracy", "0.5", "--stop-at-precision", "0.5"}, "--stop-at-accuracy: given 2 times");
  expect_refused({"--stop-at-precision", "5"}, "--stop-at-accuracy: '5' is not a number from 0 to 1");
}

TEST_F(OptionsTest, ATextThatIsNoNumberIsNamed) {
  expect_refused({"--learning-rate", "five"}, "--learning-rate: 'five' is not a number");
  expect_refused({"--learning-rate", "nan"}, "--learning-rate: 'nan' is not a number");
  expect_refused({"--learning-rate", "1e39"},
                 "--learning-rate: '1e39' is not a number from -3.4e38 to 3.4e38 (float32)");
}

TEST_F(OptionsTest, AreArrangedByHeadingThenByTheOrderGiven) {
  OptionSet set;
  bool flags[4] = {};
  set.begin_group("A");
  set.add("last", flags[0], "");
  set.begin_group("B");
  set.add("other", flags[1], "");
  set.begin_group("A");
  set.add("first", flags[2], "");
  set.add("second", flags[3], "");
  set.arrange({"first", "second"});
  std::vector<std::string> names;
  for (const Field& field : set.values().fields()) names.push_back(field.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first", "second", "last", "other"}));
}

TEST_F(OptionsTest, GivenAreThoseThatAnySourceSets) {
  setenv("CARILLON_BATCH_SIZE", "1", 1);
  write_config("log-every = 10\n");
  parse({"--seed", "1", "--config", config_.c_str()});
  for (const char* const name : {"batch-size", "log-every", "seed"}) EXPECT_TRUE(set_.given(name)) << name;
  EXPECT_FALSE(set_.given("max-steps"));
}

TEST_F(OptionsTest, BadValuesAreRefusedByName) {
  expect_refused({"--batch-size", "0"}, "--batch-size");
  expect_refused({"--batch-size", "-4"}, "--batch-size");
  expect_refused({"--batch-size", "4x"}, "--batch-size");
  expect_refused({"--batch-size", "1e2"}, "--batch-size");
  expect_refused({"--batch-size", "99999999999999999999"}, "--batch-size");
  expect_refused({"--batch-size="}, "--batch-size");
  expect_refused({"--learning-rate", "nan"}, "--learning-rate");
  expect_refused({"--learning-rate", "inf"}, "--learning-rate");
  expect_refused({"--learning-rate", "-0.1"}, "--learning-rate");
  expect_refused({"--moving-average-decay", "1.5"}, "--moving-average-decay");
  expect_refused({"--shuffle=maybe"}, "--shuffle");
  expect_refused({"--device", "tpu"}, "--device");
  expect_refused({"--seed", "-1"}, "--seed");
}

TEST_F(OptionsTest, ChoicesAreValuesOfTheirTypeListedInHelpAndErrors) {
  parse({"--device", "cuda", "--cache=none", "--resume", "never", "--precision", "bf16", "--comm", "nccl"});
  EXPECT_EQ(options_.device.device, DeviceChoice::cuda);
  EXPECT_EQ(options_.data.cache, CacheMode::none);
  EXPECT_EQ(options_.checkpoint.resume, ResumeMode::never);
  EXPECT_EQ(options_.device.precision, Arithmetic::bf16);
  EXPECT_EQ(options_.device.comm, CommunicatorChoice::nccl);
  EXPECT_THAT(set_.values().json(), HasSubstr(R"("comm":"nccl")"));
  EXPECT_THAT(set_.help(),
              ContainsRegex("library that averages the gradients .*\\[auto\\|nccl\\|mpi\\]\\s+\\(nccl\\)\n"));
  expect_refused({"--comm", "tcp"}, "'tcp' is not one of auto, nccl, mpi");
}

TEST_F(OptionsTest, ValuesAreThoseThatAllRanksShare) {
  parse({"--threads", "3", "--seed", "4"});
  const std::string json = set_.values().json();
  EXPECT_THAT(json, HasSubstr(R"("seed":4,)"));
  EXPECT_THAT(json, HasSubstr(R"("cache":"auto",)"));
  EXPECT_THAT(json, HasSubstr(R"("learning_rate":0.001,)"));
  EXPECT_THAT(json, ::testing::Not(HasSubstr("threads")));
}

TEST_F(OptionsTest, ThatDecideTheResultSaySoWhereTheyAreDeclared) {
  const std::string before = set_.values().json();
  parse({"--batch-size",
         "1",
         "--learning-rate",
         "2",
         "--learning-rate-decay",
         "2",
         "--decay-steps",
         "2",
         "--regularization",
         "2",
         "--moving-average-decay",
         "1",
         "--seed",
         "2",
         "--shuffle",
         "false",
         "--precision",
         "tf32",
         "--convolution",
         "direct",
         "--isa",
         "plain",
         "--max-steps",
         "2",
         "--cache",
         "none",
         "--device",
         "cpu",
         "--comm",
         "mpi",
         "--train-dir",
         "x",
         "--log-every",
         "2",
         "--threads",
         "2"});
  std::string changed;
  for (const std::string& line : set_.values().changes_since(before)) changed += line.substr(0, line.find(' ')) + " ";
  EXPECT_EQ(
      changed,
      "--shuffle --batch-size --seed --regularization --moving-average-decay --learning-rate --learning-rate-decay "
      "--decay-steps --precision ");  // --convolution and --isa are omitted: their resolved values are reported
}

TEST_F(OptionsTest, UnknownRepeatedAndStrayArgumentsAreRefusedByName) {
  expect_refused({"--no-such-option", "1"}, "--no-such-option");
  expect_refused({"--max", "1"}, "--max");  // prefixes are not completed
  expect_refused({"--seed", "1", "--seed", "2"}, "--seed");
  expect_refused({"--seed", "1", "stray"}, "stray");
  expect_refused({"--seed"}, "--seed");
}

TEST_F(OptionsTest, AConfigFileMayHaveAnyEncodingAndLineEnd) {
  for (const std::string& text : {"\xEF\xBB\xBF"
                                  "batch_size = 8\r\nseed = 3\r\n"s,
                                  "batch-size = 8\rseed = 3\r"s,
                                  "b\0a\0t\0c\0h\0-\0s\0i\0z\0e\0=\0"
                                  "8\0\n\0"s}) {
    OptionSet set;
    TrainOptions options;
    declare(set, options);
    write_config(text);
    set.parse({"program", "--config", config_});
    EXPECT_EQ(options.data.batch_size, 8);
  }
}

TEST_F(OptionsTest, ConfigErrorsNameTheFile) {
  write_config("no_such = 1\n");
  expect_refused({"--config", config_.c_str()}, config_);
  write_config("batch-size = zero\n");
  expect_refused({"--config", config_.c_str()}, config_);
}

TEST_F(OptionsTest, TwoConfigsAreRefused) {
  write_config("batch-size = 2\n");
  expect_refused({"--config", config_.c_str(), "--config", config_.c_str()},
                 "--config: given 2 times, takes one value");
}

TEST_F(OptionsTest, OnlyAPlainFileOfModestSizeIsAConfig) {
  expect_refused({"--config", "/dev/zero"}, "--config /dev/zero: is not a regular file");
  expect_refused({"--config", "/tmp"}, "--config /tmp: is a directory");
  ASSERT_EQ(mkfifo(config_.c_str(), 0600), 0);
  expect_refused({"--config", config_.c_str()}, "is not a regular file");
  unlink(config_.c_str());
  write_config("seed = 1 #" + std::string(1 << 20, 'x'));
  expect_refused({"--config", config_.c_str()}, "has more than 1048576 bytes");
}

TEST_F(OptionsTest, CombinationsThatCannotWorkAreRefused) {
  options_.checkpoint.train_dir = "x";
  EXPECT_NO_THROW(check_combinations(set_, options_));
  options_.data.eval_every = 10;
  EXPECT_THROW(check_combinations(set_, options_), Error);
  options_.data.eval_every = 0;
  options_.task.stop_at_accuracy = 0.9;
  EXPECT_THROW(check_combinations(set_, options_), Error);
  options_.data.eval_files = {"test"};
  EXPECT_NO_THROW(check_combinations(set_, options_));
  options_.model.sync_batch_norm = true;
  EXPECT_NO_THROW(check_combinations(set_, options_));
  options_.model.freeze_batch_norm = true;
  EXPECT_THROW(check_combinations(set_, options_), Error);
  options_.model.sync_batch_norm = false;
  EXPECT_NO_THROW(check_combinations(set_, options_));
  options_.checkpoint.fresh = true;
  options_.checkpoint.resume = ResumeMode::require;
  EXPECT_THROW(check_combinations(set_, options_), Error);
}

TEST_F(OptionsTest, SecondsBeyondWhatClocksCountAreRefused) {
  expect_refused({"--time-margin", "4294967297"}, "--time-margin");
  expect_refused({"--checkpoint-every-seconds", "9007199254740992"}, "--checkpoint-every-seconds");
}

using Words = std::vector<std::string>;

TEST(HasOption, FindsAnOptionWithOrWithoutAValue) {
  const Words words{"--model", "resnet9", "--image_size=64", "--distort"};
  EXPECT_TRUE(has_option(words, "model"));
  EXPECT_TRUE(has_option(words, "image-size"));
  EXPECT_TRUE(has_option(words, "distort"));
  EXPECT_FALSE(has_option(words, "resnet9"));
}

TEST(Only, KeepsOptionsAndTheirValues) {
  const std::vector<std::string> words{"--model", "resnet9", "--device=cpu", "--freeze", "a", "b", "--threads", "2"};
  EXPECT_THAT(only(words, {"device", "freeze", "isa"}), ElementsAre("--device=cpu", "--freeze", "a", "b"));
}

TEST(Without, RemovesAnOptionAndItsValues) {
  const Words words{"--model", "resnet9", "--freeze", "a", "b", "--max-steps=5", "--seed", "2"};
  EXPECT_THAT(without(words, {"freeze", "max-steps"}), ElementsAre("--model", "resnet9", "--seed", "2"));
}

}  // namespace
}  // namespace carillon::testing
